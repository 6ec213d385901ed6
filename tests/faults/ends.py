"""Sends a process a signal, and waits for its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb

from tests.forks import commands
from tests.patience import PATIENCE_S

STARTS = ("streams.cli",)


class Role:
    """One process of a ledger, whose output goes to a file.

    Args:
        words: of the command.
        settings: its environment, in addition to that of the test.
    """

    def __init__(
        self, name: str, directory: Path, settings: Mapping[str, str], *words: str
    ) -> None:
        mine = {each: os.environ[each] for each in os.environ if "ACCOUNTANT_" not in each}
        self.name = name
        self._log = directory / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = commands.start(
                *words,
                env={**mine, **settings},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text(errors="replace")

    def says(self, words: str) -> bool:
        """Tell whether it has printed some words; it must not have ended before."""
        if words in self.log:
            return True
        assert self._process.poll() is None, self.log[-4000:]
        return False

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code."""
        begun = time.monotonic()
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE_S)
        print(f"{self.name} ended after {time.monotonic() - begun:.1f} s by {number.name}: {code}")
        return code

    def kill(self) -> None:
        """End it whatever it does. Safe to repeat."""
        self._process.kill()
        self._process.wait()


def make_slow_source(path: Path) -> None:
    """Write a database with a view that takes hours to read."""
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE VIEW slow AS SELECT a.range AS age, 'north' AS region "
            "FROM range(10000000) a, range(10000000) b"
        )
