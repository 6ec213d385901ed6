"""The command, run as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.durations.other_processes import charge
from tests.patience import PATIENCE_S

OPENS = ("tests/streams/cli/nursery.py",)
STARTS = ("tests.streams.cli.nursery", "streams.cli")

ROOT = Path(__file__).parents[3]


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


class Nursery:
    """The process that commands are forked from; see nursery.py."""

    def __init__(self) -> None:
        theirs, self._orders = os.pipe()
        program = Path(__file__).with_name("nursery.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(theirs)],
            pass_fds=(theirs,),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.close(theirs)
        self._charged = 0.0

    def run(self, order: dict[str, Any]) -> int:
        """Run a command and return its exit code."""
        os.write(self._orders, json.dumps(order).encode() + b"\n")
        assert self._process.stdout is not None
        code, seconds = self._process.stdout.readline().split()
        self._charged += float(seconds)
        charge(float(seconds))
        return int(code)

    def close(self) -> None:
        os.close(self._orders)
        self._process.wait(PATIENCE_S)
        charge(-self._charged)  # from now on the operating system counts them, too
        assert self._process.stdout is not None
        self._process.stdout.close()


class Command:
    """Runs `accountant` in a directory of its own, with a clean environment."""

    def __init__(self, nursery: Nursery, directory: Path, files: Path) -> None:
        self.directory = directory
        self._nursery = nursery
        self._files = files
        self._runs = 0

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start it and return the process, its output to be read by the caller."""
        return subprocess.Popen(
            [sys.executable, "-m", "streams.cli", *arguments],
            cwd=self.directory,
            env=options.pop("env", environment()),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(
        self, *arguments: str, stdin: bytes = b"", out: str | None = None, **more: str
    ) -> Done:
        """Run it; `out` is a file that takes the output instead of returning it."""
        self._runs += 1
        names = ("stdin", "out", "err")
        files = {name: self._files / f"{self._runs}.{name}" for name in names}
        files["stdin"].write_bytes(stdin)
        code = self._nursery.run(
            {
                "arguments": arguments,
                "cwd": str(self.directory),
                "env": environment(**more),
                **{name: str(path) for name, path in files.items()},
                **({} if out is None else {"out": out}),
            }
        )
        error = files["err"].read_text("utf-8")
        assert "Traceback" not in error, error
        return Done(code, "" if out else files["out"].read_text("utf-8"), error)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def accountant(
    nursery: Nursery, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Command:
    return Command(nursery, tmp_path, tmp_path_factory.mktemp("command"))


@pytest.fixture
def opened(accountant: Command) -> Command:
    """A ledger in the default file with the dataset `census`, (1, 1e-6)."""
    policy = ("--epsilon", "1", "--delta", "1e-6", "--most-per-request", "1")
    done = accountant("dataset", "open", "census", *policy)
    assert done.code == 0, done.err
    return accountant
