"""A ledger's file that goes away under its owner: nothing is granted any more."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apsw
import pytest

from streams.embedded.ledger_file import reader
from streams.errors import Refused, Unavailable
from tests.faults.sqlite_life import Disk
from tests.patience import PATIENCE_S
from tests.streams.bodies import asking, opening
from tests.streams.embedded.ledger_files import (
    OPEN,
    ask,
    beside,
    elsewhere,
    granted,
    opened,
    serving,
)
from tests.streams.processing.contract import AT, Player, SqliteHarness

STARTS = ()

SUFFIXES: Final = ("", "-wal", "-shm", ".lock")

READ: Final = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT count(*) FROM decisions").fetchone()[0], flush=True)
sys.stdin.readline()
"""


def removed(file: Path, _backup: Path) -> None:
    file.unlink()


def replaced(file: Path, backup: Path) -> None:
    backup.replace(file)


def restored(file: Path, backup: Path) -> None:
    for suffix in SUFFIXES:
        beside(file, suffix).unlink()
    shutil.copy(backup, file)


def without_wal(file: Path, _backup: Path) -> None:
    beside(file, "-wal").unlink()


def with_another_wal(file: Path, _backup: Path) -> None:
    wal = beside(file, "-wal")
    shutil.copy(wal, beside(file, ".copy"))
    beside(file, ".copy").replace(wal)


AWAY: Final = [removed, replaced, restored, without_wal, with_another_wal]


def with_backup(file: Path) -> Path:
    """Return a copy of a ledger with its budget whole."""
    opened(file).close_sync()
    return Path(shutil.copy(file, file.with_name("backup")))


@pytest.mark.parametrize("away", AWAY)
def test_nothing_is_granted_after_the_file_is_removed(
    file: Path, away: Callable[[Path, Path], None]
) -> None:
    backup = with_backup(file)
    service = opened(file)
    ended = threading.Event()
    service.on_end(lambda _: ended.set())
    ask(service, 1, 2)
    away(file, backup)
    for number in (3, 4):
        with pytest.raises(Unavailable, match="removed or replaced while in use"):
            ask(service, number)
    assert ended.wait(PATIENCE_S)
    readiness = service.readiness()
    assert not readiness.ready
    assert str(file) in readiness.reasons[0]
    assert "accountant audit" in readiness.reasons[0]
    service.close_sync()


def test_a_replaced_parent_directory_is_detected(tmp_path: Path) -> None:
    file = tmp_path / "data" / "ledger.db"
    file.parent.mkdir()
    backup = with_backup(file)
    service = opened(file)
    ask(service, 1, 2)
    file.parent.rename(tmp_path / "old")
    file.parent.mkdir()
    shutil.copy(tmp_path / "old" / backup.name, file)
    with pytest.raises(Unavailable, match="removed or replaced while in use"):
        ask(service, 3)
    service.close_sync()


def test_a_program_may_change_its_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    service = opened(Path("ledger.db"))
    ask(service, 1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ask(service, 2)
    service.close_sync()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    with serving(tmp_path / "ledger.db") as again:
        assert granted(again) == 2


def test_the_restored_file_has_an_owner_while_the_one_before_still_runs(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With checkpoints the file is refused as soon as both owners have signed.
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINTS", "off")
    backup = with_backup(file)
    with serving(file) as service:
        ask(service, 1, 2)
        restored(file, backup)
        with serving(file) as second:
            ask(second, *range(10, 15))
            with pytest.raises(Unavailable, match="removed or replaced"):
                ask(service, 3)
            ask(second, *range(20, 25))
            assert granted(second) == 10
        assert elsewhere(OPEN, file) == "opened 10\n"


@pytest.mark.parametrize("away", AWAY)
def test_a_file_removed_during_a_commit_answers_no_request_of_it(
    file: Path, away: Callable[[Path, Path], None]
) -> None:
    backup = with_backup(file)
    with Disk() as disk:
        service = opened(file)
        ask(service, 1)

        def at(count: int, *_: object) -> None:
            if count == 1:
                away(file, backup)

        disk.at, disk.counting = at, True
        with pytest.raises(Unavailable, match="removed or replaced while in use"):
            ask(service, 2)
        assert disk.count > 0
        service.close_sync()


@pytest.mark.parametrize("name_after", ["ledger.db", "renamed.db"])
def test_answered_decisions_survive_the_removal_of_a_name(file: Path, name_after: str) -> None:
    service = opened(file)
    ask(service, 1, 2, 3)
    # A reader of this process keeps SQLite from bringing the WAL back when the writer ends.
    with reader(file) as db:
        assert db.execute("SELECT count(*) FROM decisions").get == 5
        if name_after == file.name:
            beside(file, "-wal").unlink()
        else:
            file.rename(file.with_name(name_after))
        with pytest.raises(Unavailable):
            ask(service, 4)
        service.close_sync()
    with serving(file.with_name(name_after)) as again:
        assert granted(again) == 4  # nobody got the last of them


def test_after_a_fault_another_file_is_not_owned(file: Path) -> None:
    backup = with_backup(file)
    with serving(file) as service:
        ask(service, 1)
        blocker = apsw.Connection(str(file))
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="in use"):
            ask(service, 2)
        ended = threading.Event()
        service.on_end(lambda _: ended.set())
        backup.replace(file)
        blocker.close()
        assert ended.wait(PATIENCE_S)
        with pytest.raises(Unavailable, match="removed or replaced"):
            ask(service, 3)


@contextlib.contextmanager
def read_elsewhere(file: Path) -> Iterator[int]:
    """Have another process read a file; yield the number of decisions that it sees."""
    command = [sys.executable, "-c", READ, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def test_a_wal_that_goes_between_two_owns_is_missed(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path)
    await harness.feed("admin", opening("census", AT, 0))
    await harness.feed("requests", asking("census", AT, 1))
    playing = Player(await harness.make(), harness.genesis)
    await playing.start()
    await playing.decide(2, AT)
    # Beside a reader SQLite does not bring the WAL back when the owner lets go.
    with read_elsewhere(harness.path) as seen:
        assert seen == 3
        await playing.journal.drop()
        for suffix in ("-wal", "-shm"):
            beside(harness.path, suffix).unlink()
        with pytest.raises(Refused, match="removed or replaced while in use"):
            await playing.journal.own()
        await playing.journal.drop()
