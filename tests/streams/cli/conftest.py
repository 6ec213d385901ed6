"""The command, run as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.forks import commands
from tests.nightly import NIGHTLY

OPENS = ()
STARTS = ("streams.cli",)

ROOT = Path(__file__).parents[3]
_WRITTEN = os.O_WRONLY | os.O_CREAT


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line of the output, decoded."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def rows(self) -> list[Any]:
        """Every line of the output, decoded."""
        return [json.loads(line) for line in self.out.splitlines()]


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "120", **more}


class Command:
    """Runs `accountant` in a directory of its own, with a clean environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start it and return the process, its output to be read by the caller."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = {"env": environment(), "text": True, **pipes, **options}
        return commands.start(*arguments, cwd=self.directory, **options)

    def __call__(
        self, *arguments: str, stdin: bytes = b"", out: str | None = None, **more: str
    ) -> Done:
        """Run it.

        Args:
            out: a file that takes the output instead of returning it; `|` is a pipe without reader.
        """
        taken = None if out is None else unread() if out == "|" else os.open(out, _WRITTEN, 0o600)
        try:
            done = commands.run(
                *arguments,
                stdin=stdin,
                cwd=self.directory,
                env=environment(**more),
                **({} if taken is None else {"stdout": taken}),
            )
        finally:
            if taken is not None:
                os.close(taken)
        printed, error = (text_of(each) for each in (done.stdout, done.stderr))
        assert "Traceback" not in error, error
        return Done(done.returncode, printed, error)


def text_of(output: bytes | None) -> str:
    """Return an output as it is in a file of text."""
    return (output or b"").decode().replace("\r\n", "\n")


def unread() -> int:
    """Return the end of a pipe to write to, whose other end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.fixture
def accountant(tmp_path: Path) -> Command:
    """The command, run in this process; by night in processes of its own."""
    if NIGHTLY:
        return Command(tmp_path)
    from tests.streams.cli.here import CommandHere

    return CommandHere(tmp_path)


@pytest.fixture
def opened(accountant: Command) -> Command:
    """A ledger in the default file with the dataset `census`, (1, 1e-6)."""
    policy = ("--epsilon", "1", "--delta", "1e-6", "--most-per-request", "1")
    done = accountant("dataset", "open", "census", *policy)
    assert done.code == 0, done.err
    return accountant
