"""Ledgers' files that are owned here and elsewhere."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from accountant.records import decode_decision
from streams.clock import SystemClock
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.faults.sqlite_life import die, forked
from tests.patience import PATIENCE_S
from tests.streams.bodies import asking, opening

STARTS = ()

BORN: Final = SystemClock().now()

OPEN: Final = """
import sys
from pathlib import Path
from streams.embedded.service import EmbeddedService
from streams.errors import LedgerFault
from streams.settings import Settings
try:
    service = EmbeddedService.open(Path(sys.argv[1]), Settings())
except LedgerFault as error:
    print(type(error).__name__, error)
else:
    print("opened", service.views.datasets()["census"].totals["mechanisms"])
    service.close_sync()
"""


def elsewhere(code: str, file: Path, *before: str) -> str:
    """Return what another process says of a file."""
    command = [*before, sys.executable, "-c", code, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def opened(file: Path) -> EmbeddedService:
    """Return a ledger with dataset `census`, made if it is not there."""
    service = EmbeddedService.open(file, Settings())
    service.submit_sync("admin", opening("census", BORN, 0), 10)
    return service


def ask(service: EmbeddedService, *numbers: int) -> None:
    """Be granted a tenth of the budget for each number."""
    for number in numbers:
        decision = service.submit_sync("requests", asking("census", BORN, number), 10).decision
        assert decision is not None
        assert decode_decision(decision).outcome == "granted"


def granted(service: EmbeddedService) -> int:
    """Return how many releases the ledger has granted."""
    return int(service.views.datasets()["census"].totals["mechanisms"])


def beside(file: Path, suffix: str) -> Path:
    """Return what lies beside a ledger's file."""
    return file.with_name(file.name + suffix)


@contextlib.contextmanager
def serving(file: Path) -> Iterator[EmbeddedService]:
    """Own a ledger for a while."""
    service = opened(file)
    try:
        yield service
    finally:
        service.close_sync()


def killed_after(file: Path, *numbers: int) -> None:
    """Have a process own the file, be granted, and be killed, its WAL left behind."""

    def live() -> None:
        ask(opened(file), *numbers)
        die()

    os.waitpid(forked(live), 0)
    assert beside(file, "-wal").stat().st_size > 0
