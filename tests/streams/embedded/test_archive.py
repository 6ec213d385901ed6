"""The beginning of a ledger's log in an archive: nothing that was spent changes."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from accountant.errors import LogDamaged, RequestInvalid
from accountant.partition import hash_of
from accountant.records import decode_decision
from accountant.records.outcomes import Outcome
from accountant.replay.audit import audit
from streams.client import Accountant, Refused
from streams.embedded.ledger_file import read_decisions, reader
from streams.embedded.sealed_log import read_seal, read_sealed
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.faults.sqlite_life import forked
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill, latest, ledger_of


@pytest.fixture
def used(file: Path, clock: TestClock) -> Path:
    fill(file, clock)
    return file


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "old.jsonl.gz"


def log_of(file: Path) -> list[bytes]:
    return [*read_decisions(file)]


def lines(target: Path) -> list[bytes]:
    return gzip.decompress(target.read_bytes()).splitlines()


def datasets(file: Path, clock: TestClock) -> list[tuple[object, ...]]:
    with ledger_of(file, clock) as ledger:
        return [
            (view.dataset, view.sequence, view.totals, view.left, view.odometers, view.crossed)
            for view in ledger.datasets()
        ]


def usage(file: Path, clock: TestClock) -> list[object]:
    with ledger_of(file, clock) as ledger:
        return [*ledger.usage("census"), *ledger.usage("survey")]


def forget_index(file: Path) -> None:
    for suffix in (".index", ".index-wal", ".index-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def change(file: Path, *statements: str) -> None:
    with apsw.Connection(str(file)) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def test_archive_and_log_are_the_whole_log(used: Path, target: Path, clock: TestClock) -> None:
    with ledger_of(used, clock) as ledger:  # whose id must be known after it
        last = ledger.ask("census", "gaussian:sigma=90,sensitivity=1")
    assert last.granted
    stood, counted, whole = datasets(used, clock), usage(used, clock), log_of(used)
    size = used.stat().st_size

    done = archive_file(used, clock, target)
    assert (done.first, done.last) == (0, len(lines(target)) - 1)
    assert target.stat().st_mode & 0o777 == 0o600
    kept = log_of(used)
    assert lines(target) == whole[: done.last + 1]
    assert kept == [whole[0], *whole[done.last + 1 :], kept[-1]]
    assert done.rest == len(kept)
    assert used.stat().st_size < size
    seal = decode_decision(kept[-1])
    assert (seal.outcome, seal.note) == (Outcome.SEALED, "the disk is full")
    assert seal.seal is not None
    assert (seal.seal.archived, seal.seal.head) == (done.last, hash_of(whole[done.last]))

    assert datasets(used, clock) == stood
    assert usage(used, clock) == counted
    forget_index(used)
    assert usage(used, clock) == counted
    with ledger_of(used, clock) as ledger:
        again = ledger.ask("census", "gaussian:sigma=90,sensitivity=1", request_id=last.request_id)
        assert again.repeated
        assert ledger.ask("census", "gaussian:sigma=9,sensitivity=1").granted
    report = audit([*lines(target), *log_of(used)[1:]])
    assert report.ok, report.first_disagreement


def test_rows_of_state_are_made_again_from_the_snapshot(
    used: Path, target: Path, clock: TestClock
) -> None:
    archive_file(used, clock, target)
    with ledger_of(used, clock) as ledger:
        ledger.ask("survey", "pure:0.01")
    stood = datasets(used, clock)
    with reader(used) as db:
        rows = db.execute("SELECT * FROM state ORDER BY key").fetchall()
    for damage in ("DELETE FROM state", "DELETE FROM state WHERE key = 'survey'"):
        change(used, damage)
        assert datasets(used, clock) == stood
        with reader(used) as db:
            assert db.execute("SELECT * FROM state ORDER BY key").fetchall() == rows


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE sealed",
        "DELETE FROM sealed",
        "DELETE FROM sealed WHERE part = 'usage'",
        "DELETE FROM sealed WHERE part = 'state' AND number = 0",
        "UPDATE sealed SET value = replace(value, '0.', '0.0') WHERE part = 'state'",
        "UPDATE sealed SET value = CAST(7 AS INTEGER) WHERE number = 0",
    ],
)
def test_a_missing_or_other_snapshot_is_refused(
    used: Path, target: Path, clock: TestClock, damage: str
) -> None:
    archive_file(used, clock, target)
    change(used, damage, "DELETE FROM state")
    with pytest.raises((Refused, LogDamaged)):
        EmbeddedService.open(used, Settings(), clock=clock)


def test_usage_of_a_forged_snapshot_is_not_shown(
    used: Path, target: Path, clock: TestClock
) -> None:
    archive_file(used, clock, target)
    forged = "UPDATE sealed SET value = replace(value, '\"granted\":', '\"granted\":1')"
    change(used, forged + " WHERE part = 'usage'")
    forget_index(used)
    with (
        ledger_of(used, clock) as ledger,
        pytest.raises(Exception, match="the seal names other usage"),
    ):
        ledger.usage("survey")


def test_an_archive_follows_the_other(used: Path, target: Path, clock: TestClock) -> None:
    first = archive_file(used, clock, target)
    clock.pass_(seconds=3 * 3600)
    with ledger_of(used, clock) as ledger:
        for _ in range(7):
            ledger.ask("survey", "pure:0.01", analyst="zoe", purpose="later")
    counted = usage(used, clock)
    second = target.with_name("second.jsonl.gz")
    done = archive_file(used, clock, second)
    assert done.first == first.last + 1
    whole = [*lines(target), *lines(second), *log_of(used)[1:]]
    report = audit(whole)
    assert report.ok, report.first_disagreement
    assert report.outcomes["sealed"] == 2
    forget_index(used)
    assert usage(used, clock) == counted
    change(used, "DELETE FROM state")
    assert datasets(used, clock)
    with reader(used) as db:
        found = read_seal(db)
    assert found is not None
    assert audit(log_of(used), sealed=found[0]).right


def test_decisions_that_may_be_repeated_are_not_archived(
    used: Path, target: Path, clock: TestClock
) -> None:
    with pytest.raises(RequestInvalid, match=r"--before must be at most 20.*may still be repeated"):
        archive_file(used, clock, target, latest(used) + 1)
    with pytest.raises(RequestInvalid, match="--before must be after the first decision"):
        archive_file(used, clock, target, 0)
    assert not target.exists()
    assert read_of(used) is None


def read_of(file: Path) -> object:
    with reader(file) as db:
        return read_sealed(db)


def test_an_existing_file_is_not_overwritten_by_an_archive(
    used: Path, target: Path, clock: TestClock
) -> None:
    target.write_text("somebody's")
    with pytest.raises(Refused, match="exists: name another file"):
        archive_file(used, clock, target)
    with pytest.raises(Refused, match="cannot be written"):
        archive_file(used, clock, target / "in" / "a file")
    assert target.read_text() == "somebody's"
    assert read_of(used) is None


def test_a_running_ledger_is_not_archived(used: Path, target: Path, clock: TestClock) -> None:
    with ledger_of(used, clock), pytest.raises(Refused):
        archive_file(used, clock, target)


def test_a_log_that_fails_its_audit_is_not_archived(
    used: Path, target: Path, clock: TestClock
) -> None:
    change(
        used,
        "UPDATE decisions SET value = CAST(replace(value, 'a1', 'a2') AS BLOB) WHERE sequence = 9",
    )
    with pytest.raises(LogDamaged, match="Nothing was archived"):
        archive_file(used, clock, target)
    assert not target.exists()
    assert read_of(used) is None


def test_checkpoints_of_a_sealed_file_are_no_alarm(
    used: Path, target: Path, clock: TestClock
) -> None:
    archive_file(used, clock, target)
    with ledger_of(used, clock) as ledger:
        for _ in range(400):  # the WAL goes back into the file several times
            ledger.ask("census", "gaussian:sigma=90,sensitivity=1")
        ledger.as_owner("owner").amend("census", alert_at=["0.9"])
    with ledger_of(used, clock) as ledger:
        ledger.ask("census", "gaussian:sigma=90,sensitivity=1")
    with reader(used) as db:
        found = read_seal(db)
    assert found is not None
    assert audit(log_of(used), sealed=found[0]).right


def whole_of(file: Path, target: Path) -> list[bytes]:
    with reader(file) as db:
        sealed = read_seal(db)
    return log_of(file) if sealed is None else [*lines(target), *log_of(file)[1:]]


@pytest.mark.parametrize("part", range(12))
def test_a_kill_leaves_the_ledger_as_it_was_or_sealed(
    used: Path, target: Path, clock: TestClock, part: int
) -> None:
    whole, stood = log_of(used), datasets(used, clock)

    def took(work: Callable[[], object]) -> float:
        begun = time.monotonic()
        work()
        return time.monotonic() - begun

    copy = used.with_name("copy.db")
    copy.write_bytes(used.read_bytes())
    seconds = took(lambda: archive_file(copy, clock, target.with_name("copy.gz")))
    child = forked(lambda: archive_file(used, clock, target))
    time.sleep(seconds * (part + 0.5) / 12)
    os.kill(child, 9)
    os.waitpid(child, 0)

    after = whole_of(used, target)
    assert after[: len(whole)] == whole
    assert audit(after).ok
    assert datasets(used, clock) == stood
    if len(after) == len(whole):  # not sealed: the same command again, with another name
        archive_file(used, clock, target.with_name("again.gz"))
        assert datasets(used, clock) == stood
    assert isinstance(ledger_of(used, clock), Accountant)
