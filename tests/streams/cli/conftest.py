"""The command, run as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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


class Command:
    """Runs `accountant` in a directory of its own, with a clean environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "120", **more}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start it and return the process, its output to be read by the caller."""
        return subprocess.Popen(
            [sys.executable, "-m", "streams.cli", *arguments],
            cwd=self.directory,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "streams.cli", *arguments],
            cwd=self.directory,
            env=self.environment(**environment),
            input=stdin,
            capture_output=True,
            timeout=120,
        )
        error = done.stderr.decode()
        assert "Traceback" not in error, error
        return Done(done.returncode, done.stdout.decode(), error)


@pytest.fixture
def accountant(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def opened(accountant: Command) -> Command:
    """A ledger in the default file with the dataset `census`, (1, 1e-6)."""
    done = accountant("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6")
    assert done.code == 0, done.err
    return accountant
