"""A ledger of some hours of which a part can be archived."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from accountant.times import from_iso
from streams.client import Accountant
from streams.clock import CheckedClock
from streams.embedded.archive import ArchiveResult, archive
from streams.embedded.file_ownership import stopped_ledger
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.uncompared import uncompared

HOURS = 6
LIMIT = 65 * 60_000  # window and skew: so long before the last decision an id may be repeated


def ledger_of(file: Path, clock: TestClock) -> Accountant:
    return Accountant(f"sqlite:///{file}", clock=clock, analyst="ana")


def fill(file: Path, clock: TestClock) -> None:
    """Use a ledger for some hours, two datasets, some refusals."""
    with ledger_of(file, clock) as ledger:
        ledger.as_owner("owner").open("census", {"filter": "zcdp", "rho": "0.5"}, as_given=True)
        ledger.as_owner("owner").open("survey", {"filter": "basic", "epsilon": "1"}, as_given=True)
        for hour in range(HOURS):
            for n in range(5):
                analyst = f"a{n % 3}"
                ledger.ask("census", "gaussian:sigma=9,sensitivity=1", analyst=analyst)
                ledger.ask("survey", "pure:0.05", analyst=analyst, purpose=f"p{hour}")
            clock.pass_(seconds=3600)


def latest(file: Path) -> int:
    """Return the latest time before which everything may be archived."""
    from accountant.records import decode_decision
    from streams.embedded.ledger_file import read_decisions

    last = decode_decision([*read_decisions(file)][-1])
    return from_iso(last.floor) - 300_000


def archive_file(
    file: Path, clock: TestClock, target: Path, before: int | None = None
) -> ArchiveResult:
    """Archive as the command does."""
    before = latest(file) if before is None else before
    checked = CheckedClock(clock)

    async def work(journal: Any, genesis: Any) -> ArchiveResult:
        try:
            done = await archive(
                journal,
                file,
                genesis,
                checked,
                target,
                before=before,
                note="the disk is full",
                progress=lambda _what, _count: None,
                compare=uncompared,
            )
            await journal.shrink()
            return done
        finally:
            await journal.drop()

    with stopped_ledger(file, Settings(), clock.now()) as (journal, genesis):
        return asyncio.run(work(journal, genesis))
