"""Readers beside the writer of a ledger's file: what they see, and what they leave of its WAL."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from accountant.records import Genesis
from streams.embedded.journal import SqliteJournal
from streams.embedded.ledger_file import connect_writer, create, read_decisions, read_genesis
from streams.errors import Refused, Unavailable
from tests.faults.sqlite_life import Disk
from tests.streams.processing.contract import AwaitableQueue

GENESIS = Genesis("accountant", 0, 1, 3_600_000, 300_000)
AT = 1_700_000_000_000
PAGE = 1_000  # decisions of one statement


def append(db: apsw.Connection, first: int, count: int, *, size: int = 10) -> None:
    with db:
        db.executemany(
            "INSERT INTO decisions (sequence, decided_at, value) VALUES (?, ?, ?)",
            [(number, AT, b"%0*d" % (size, number)) for number in range(first, first + count)],
        )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    create(path, GENESIS, AT)
    return path


def checkpointed(db: apsw.Connection) -> bool:
    """Move the WAL into the file, as far as readers allow a restart of the WAL."""
    busy, *_ = db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()[0]
    return not busy


def test_a_slow_reader_does_not_stop_the_wal_from_shrinking(file: Path) -> None:
    with closing(connect_writer(file)) as db:
        db.set_busy_timeout(0)
        append(db, 1, 3 * PAGE)
        with closing(read_decisions(file)) as reading:
            next(reading)
            append(db, 3 * PAGE + 1, 10)
            assert checkpointed(db)
            assert len(list(reading)) == 3 * PAGE + 10


def test_each_commit_is_synced_whatever_sqlite_was_built_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(db: apsw.Connection) -> None:
        db.pragma("synchronous", "off")

    done = list[str]()
    path = tmp_path / "ledger.db"
    monkeypatch.setattr(apsw, "connection_hooks", [hasty])
    with Disk() as disk:
        disk.at, disk.counting = lambda _count, _file, what, *_: done.append(what), True
        create(path, GENESIS, AT)
        assert "sync" in done
        with closing(connect_writer(path)) as db:
            done.clear()
            append(db, 1, 1)
            assert done[-1] == "sync"


def test_pages_are_the_log_in_its_order(file: Path) -> None:
    with closing(connect_writer(file)) as db:
        append(db, 1, 2 * PAGE)
        append(db, 2 * PAGE + 5, 10)  # a gap is the audit's to find
    everything = list(read_decisions(file))
    assert len(everything) == 2 * PAGE + 11
    for first in (0, 1, PAGE):
        for limit in (0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 5 * PAGE):
            page = list(read_decisions(file, first=first, limit=limit))
            assert page == everything[first:][:limit], (first, limit)


def test_a_wal_that_grew_during_a_read_is_truncated_after_it(file: Path) -> None:
    wal = file.with_name(f"{file.name}-wal")
    with closing(connect_writer(file)) as db:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM decisions").fetchall()
            append(db, 1, 200, size=200_000)
            assert wal.stat().st_size > 32 << 20
        assert checkpointed(db)
        append(db, 201, 1)
        assert wal.stat().st_size <= 16 << 20


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("CAST(value AS TEXT)", "text"),
        ("CAST(x'22ff22' AS TEXT)", "text"),  # no UTF-8
        ("200000000", "integer"),
        ("0.5", "real"),
    ],
)
def test_a_value_of_another_type_is_damage_and_earlier_ones_are_read(
    file: Path, value: str, kind: str
) -> None:
    with closing(connect_writer(file)) as db:
        append(db, 1, PAGE + 9)
        before = list(read_decisions(file))[: PAGE + 5]
        db.execute(f"UPDATE decisions SET value = {value} WHERE sequence = {PAGE + 5}")
    reading = read_decisions(file)
    assert [next(reading) for _ in before] == before
    what = f"is damaged: decision {PAGE + 5} must be stored as blob, got {kind}"
    with pytest.raises(Refused, match=what):
        next(reading)


@pytest.mark.parametrize("value", ["200000000", "x'7b2274797065223a22ff227d'"])
def test_a_genesis_that_cannot_be_read_is_damage(file: Path, value: str) -> None:
    with closing(connect_writer(file)) as db:
        db.execute(f"UPDATE decisions SET value = {value} WHERE sequence = 0")
    with pytest.raises(Refused, match="is damaged: decision 0 "):
        read_genesis(file)


def test_a_writer_names_a_damaged_value_before_the_range_that_it_reads(file: Path) -> None:
    with closing(connect_writer(file)) as db:
        append(db, 1, 5)
        db.execute("UPDATE decisions SET decided_at = decided_at + 10 WHERE sequence = 5")
        db.execute("UPDATE decisions SET value = 12 WHERE sequence = 4")

    async def read() -> list[bytes]:
        journal = SqliteJournal(file, inbox=AwaitableQueue(10))
        await journal.own()
        try:
            return [value async for value in journal.decisions(AT + 5)]
        finally:
            await journal.drop()

    with pytest.raises(Refused, match="decision 4 must be stored as blob, got integer"):
        asyncio.run(read())


@pytest.mark.parametrize("table", ["state", "decisions"])
def test_an_unreadable_decision_raises_and_is_never_the_end_of_the_log(
    file: Path, table: str
) -> None:
    async def read() -> None:
        journal = SqliteJournal(file, inbox=AwaitableQueue(10))
        await journal.own()
        try:
            with closing(connect_writer(file)) as other:
                other.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
            values = journal.rows() if table == "state" else journal.decisions(None)
            with pytest.raises(Unavailable, match="no such table"):
                _ = [value async for value in values]
        finally:
            await journal.drop()

    asyncio.run(read())


def test_an_owner_refuses_another_ledger_at_its_path(file: Path, tmp_path: Path) -> None:
    another = tmp_path / "another.db"
    create(another, GENESIS, AT)

    async def own() -> None:
        journal = SqliteJournal(file, inbox=AwaitableQueue(10))
        await journal.own()
        await journal.drop()
        another.replace(file)
        with pytest.raises(Refused, match="removed or replaced"):
            await journal.own()
        await journal.drop()

    asyncio.run(own())
    with closing(connect_writer(file)) as db:
        assert db.execute("SELECT epoch FROM owner").get == 0
