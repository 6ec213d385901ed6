"""A backup put back into a ledger that runs: nothing is granted any more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from tests.ledger_file import connected
from tests.patience import PATIENCE_S
from tests.streams.bodies import asking, opening
from tests.streams.embedded.ledger_files import BORN, ask, opened, serving

STARTS = ()

# In a process of its own: a second SQLite in this one would break the ledger's locks.
COPY: Final = """
import sqlite3, sys
source, target = map(sqlite3.connect, sys.argv[1:])
source.backup(target)
"""
CHECKPOINT: Final = """
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
"""
PUT_BACK: Final = "an older copy has replaced it while the ledger was running"


def copy_over(source: Path, target: Path) -> None:
    """Write one database over another, as `.backup` and `.restore` of SQLite's shell do."""
    subprocess.run(
        [sys.executable, "-c", COPY, str(source), str(target)], check=True, timeout=PATIENCE_S
    )


def back_up(file: Path) -> Path:
    """Copy a ledger that runs."""
    copy = file.with_name("copy.db")
    copy_over(file, copy)
    return copy


def refused(service: EmbeddedService, number: int) -> None:
    with pytest.raises(Unavailable, match=PUT_BACK):
        ask(service, number)
    assert not service.readiness().ready
    assert PUT_BACK in service.readiness().reasons[0]


def test_nothing_is_granted_after_a_backup_replaces_a_running_ledger(file: Path) -> None:
    service = opened(file)
    ask(service, 1, 2)
    copy = back_up(file)
    ask(service, 3, 4)
    copy_over(copy, file)
    refused(service, 5)
    refused(service, 6)
    service.close_sync()


def test_a_different_log_of_the_same_length_is_refused(file: Path) -> None:
    service = opened(file)
    ask(service, 1)
    copy = back_up(file)
    ask(service, 2)
    # The copy goes on by itself, to the same number of decisions and the owner's very epoch.
    other = EmbeddedService.open(copy, Settings())
    ask(other, 3)
    other.close_sync()
    with connected(copy) as db:
        db.execute("UPDATE owner SET epoch = epoch - 1")
    copy_over(copy, file)
    refused(service, 4)
    service.close_sync()


def test_a_copy_of_another_ledger_is_refused(file: Path, tmp_path: Path) -> None:
    other = opened(tmp_path / "other.db")
    other.submit_sync("admin", opening("survey", BORN, 1), 10)
    other.close_sync()
    service = opened(file)
    ask(service, 1)
    copy_over(tmp_path / "other.db", file)
    refused(service, 2)
    service.close_sync()


def test_a_complete_copy_over_a_running_ledger_changes_nothing(file: Path) -> None:
    service = opened(file)
    ask(service, 1, 2)
    copy_over(back_up(file), file)
    ask(service, 3)
    service.close_sync()


def filled(file: Path, first: int, count: int) -> EmbeddedService:
    """Return a ledger that has rewritten its main file since its first decisions."""
    service = EmbeddedService.open(file, Settings())
    for number in range(first, first + count):
        service.submit_sync("requests", asking("nowhere", BORN, number), 10)
    return service


def test_a_backup_copied_over_the_same_inode_is_detected(file: Path) -> None:
    opened(file).close_sync()
    copy = back_up(file)
    before = file.stat().st_mtime_ns
    service = filled(file, 1_000, 600)
    assert file.stat().st_mtime_ns != before, "no checkpoint was made: the test shows nothing"
    file.write_bytes(copy.read_bytes())  # the same inode, as `cp` has it
    with pytest.raises(Unavailable, match=f"{PUT_BACK}|is damaged"):
        ask(service, 1)
    assert not service.readiness().ready
    service.close_sync()


def test_a_wal_checkpoint_of_another_program_changes_nothing(file: Path) -> None:
    opened(file).close_sync()
    service = filled(file, 1_000, 600)
    for number in range(1, 4):
        subprocess.run(
            [sys.executable, "-c", CHECKPOINT, str(file)], check=True, timeout=PATIENCE_S
        )
        ask(service, number)
    file.touch()
    ask(service, 4)
    service.close_sync()
    with serving(file) as again:
        ask(again, 5)


def test_a_backup_put_back_between_two_connections_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault drops the connection; what it finds at the next one must be what it had."""
    service = opened(file)
    ask(service, 1)
    copy = back_up(file)
    ask(service, 2)
    copy_over(copy, file)
    refused(service, 3)
    service.close_sync()
    # Another process knows of the loss by the checkpoints alone.
    with pytest.raises(Refused, match=r"ends at decision 2, but decision 3 was there"):
        opened(file)
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINTS", "off")
    again = opened(file)
    ask(again, 2)
    again.close_sync()
