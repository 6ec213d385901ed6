"""The log in a ledger's file: archived decisions, a lost end, and a file that must not change."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw
import pytest

from accountant.errors import LogDamaged
from streams.embedded.ledger_file import numbered_decisions
from streams.embedded.service import EmbeddedService
from streams.embedded.sqlite_log import SqliteLog
from streams.errors import Gone, Refused
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill


@pytest.fixture
def file(tmp_path: Path, clock: TestClock) -> Path:
    fill(tmp_path / "ledger.db", clock)
    return tmp_path / "ledger.db"


@pytest.mark.parametrize("traceless", [False, True])
def test_archived_decisions_are_gone_and_the_rest_is_there(
    tmp_path: Path, file: Path, clock: TestClock, traceless: bool
) -> None:
    before = SqliteLog(file).read(0, 0, 1_000)
    log = SqliteLog(file, traceless=traceless)
    archive_file(file, clock, tmp_path / "archive.jsonl")
    first = log.first_unarchived()
    assert 1 < first < len(before)
    assert log.read(0, 0, 1) == before[:1]
    for number in (1, first - 1):
        with pytest.raises(Gone, match=f"decision {number} "):
            log.read(0, number, 5)
    with pytest.raises(Gone, match="decision 1 "):
        log.read(0, 0, 2)
    assert log.read(0, first, 1_000)[:-1] == before[first:]
    found = log.seal(0)
    assert found is not None
    assert found[1].archived == first - 1
    last, seal = log.last(0)
    assert (last, b'"seal":' in seal) == (len(before), True)
    log.close()


def test_a_log_that_lost_its_end_is_noticed(file: Path) -> None:
    log = SqliteLog(file)
    last, _ = log.last(0)
    with contextlib.closing(apsw.Connection(str(file))) as db:
        db.execute("DELETE FROM decisions WHERE sequence = ?", (last,))
    with pytest.raises(LogDamaged, match=f"decision {last} of the log is missing"):
        log.last(0)
    log.close()


def test_a_traceless_read_leaves_no_file(file: Path) -> None:
    there = {*file.parent.iterdir()}
    log = SqliteLog(file, traceless=True)
    assert log.read(0, 0, 1)
    assert log.last(0)[0] > 0
    assert {*file.parent.iterdir()} == there


def test_another_file_at_the_path_is_read_once_the_log_was_forgotten(
    tmp_path: Path, file: Path, clock: TestClock
) -> None:
    log = SqliteLog(file)
    first = log.read(0, 0, 1)
    other = tmp_path / "other.db"
    fill(other, clock)
    other.replace(file)
    log.forget(0)
    assert log.read(0, 0, 1) not in ([], first)
    file.unlink()
    log.forget(0)
    with pytest.raises(Refused, match=r"ledger\.db"):
        log.read(0, 0, 1)


async def test_a_file_that_is_written_while_it_is_read_is_read_again(
    file: Path, clock: TestClock
) -> None:
    services, log = list[EmbeddedService](), SqliteLog(file, traceless=True)

    def read(db: apsw.Connection) -> int:
        if not services:
            services.append(EmbeddedService.open(file, Settings(checkpoints="off"), clock=clock))
            return -1
        return len(list(numbered_decisions(db)))

    assert log._of_one_file(read) == log.last(0)[0] + 1
    await services[0].close()
