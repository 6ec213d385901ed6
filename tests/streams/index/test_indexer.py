"""The indexer resumes, starts again from the beginning, and may fail without harm."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from accountant.views.usage import BYS
from streams.errors import Unavailable
from streams.index import Indexer
from streams.index.rows import Rows
from tests.accountant.world import World
from tests.patience import PATIENCE_S
from tests.streams.index.logs import ListedLog, busy_world, end_of, filled, index_counts, recounted
from tests.threads import threads_named


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db.index"


@contextlib.contextmanager
def following(log: ListedLog, path: Path) -> Iterator[Indexer]:
    follower = Indexer(log, path)
    try:
        yield follower
    finally:
        follower.close()


def check(follower: Indexer, log: list[bytes]) -> None:
    def all_of(rows: Rows) -> dict[str, object]:
        return {by: index_counts(rows, "adult", by) for by in BYS}

    found = follower.read({0: end_of(log)}, all_of, wait=PATIENCE_S)
    assert found == {by: recounted(log, "adult", by) for by in BYS}


def test_an_indexer_reads_existing_and_new_decisions(path: Path) -> None:
    whole = busy_world().log
    log = ListedLog(whole[:20])
    with following(log, path) as follower:
        follower.wake()
        check(follower, whole[:20])
        log.values += whole[20:]
        follower.wake()
        check(follower, whole)
        assert follower.trouble is None


def test_a_new_indexer_resumes_where_the_last_one_ended(path: Path) -> None:
    whole = busy_world().log
    with following(ListedLog(whole[:20]), path) as follower:
        check(follower, whole[:20])

    log = ListedLog(whole)
    with following(log, path) as follower:
        check(follower, whole)
    # It reads decision 0, which tells a log, and the one that the index had reached; none between.
    assert sorted(set(log.firsts))[:3] == [0, 19, 20]


@pytest.mark.parametrize("shorter", [False, True])
def test_an_indexer_starts_again_if_the_log_has_another_decision(path: Path, shorter: bool) -> None:
    filled(path, busy_world().log).close()
    other = World()
    other.open("adult", epsilon="1", filter="basic")
    for number in range(5 if shorter else 200):
        other.ask("pure:0.001", dataset="adult", analyst=f"b{number % 3}")
    with following(ListedLog(other.log), path) as follower:
        check(follower, other.log)


def test_an_indexer_starts_again_if_another_log_has_the_same_length(path: Path) -> None:
    whole = busy_world().log
    filled(path, whole).close()
    other = World()
    other.open("adult", epsilon="1", filter="basic")
    while len(other.log) < len(whole):
        other.ask("pure:0.001", dataset="adult", analyst="b")
    with following(ListedLog(other.log), path) as follower:
        check(follower, other.log)


def test_an_indexer_starts_again_if_the_log_is_replaced_meanwhile(path: Path) -> None:
    log = ListedLog(busy_world().log)
    other = World()
    other.open("adult", epsilon="1", filter="basic")
    for _ in range(200):
        other.ask("pure:0.001", dataset="adult")
    with following(log, path) as follower:
        check(follower, log.values)
        log.values = other.log
        check(follower, other.log)


def damage_all(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))


def test_a_damaged_index_is_rebuilt(path: Path) -> None:
    whole = busy_world().log
    filled(path, whole[:20]).close()
    damage_all(path)
    with following(ListedLog(whole), path) as follower:
        check(follower, whole)
    check_integrity(path)


def check_integrity(path: Path) -> None:
    assert apsw.Connection(str(path)).pragma("integrity_check") == "ok"


def test_a_foreign_file_at_the_path_of_the_index_is_reported_and_unchanged(path: Path) -> None:
    path.write_text("somebody's notes " * 100)
    before, whole = path.read_bytes(), busy_world().log
    with following(ListedLog(whole), path) as follower:
        check(follower, whole)
        assert follower.trouble is not None
        assert "move it away" in follower.trouble
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", ["directory", "missing directory"])
def test_an_unwritable_index_path_is_reported_and_the_index_stays_in_memory(
    path: Path, what: str
) -> None:
    whole = busy_world().log
    place = path
    if what == "directory":
        path.mkdir()
    else:
        place = path / "nowhere" / "index"
    with following(ListedLog(whole), place) as follower:
        check(follower, whole)
        assert follower.trouble is not None
        assert "cannot be opened" in follower.trouble


def test_a_read_only_index_file_is_reported_and_reading_continues(path: Path) -> None:
    whole = busy_world().log
    filled(path, whole[:20]).close()
    if os.geteuid() == 0:
        # Nothing keeps root from writing but a file system; SQLite looks at these bytes itself:
        # a file format that it may read and not write.
        with path.open("r+b") as file:
            file.seek(18)
            file.write(b"\x03")
    else:
        path.chmod(stat.S_IRUSR)
    with following(ListedLog(whole), path) as follower:
        check(follower, whole)
        assert follower.trouble is not None


def test_a_locked_index_is_reported_and_used_after_its_release(path: Path) -> None:
    whole = busy_world().log
    filled(path, whole[:20]).close()
    # Of this process' own SQLite: two libraries in one process do not see each other's locks.
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with following(ListedLog(whole), path) as follower:
        with pytest.raises(Unavailable, match="another process uses it"):
            follower.read({0: end_of(whole)}, lambda rows: rows, wait=3)
        assert follower.trouble is not None
        other.execute("ROLLBACK")
        check(follower, whole)
        assert follower.trouble is None


def test_an_unreadable_log_is_read_again_later(path: Path) -> None:
    whole = busy_world().log
    log = ListedLog(whole)
    log.fault = Unavailable("the disk is away")
    with following(log, path) as follower:
        with pytest.raises(Unavailable, match="the disk is away"):
            follower.read({0: end_of(whole)}, lambda rows: rows, wait=0.5)
        log.fault = None
        check(follower, whole)


def test_an_unreadable_decision_stops_the_index_before_it(path: Path) -> None:
    whole = busy_world().log
    log = ListedLog([*whole[:20], b'{"version":2}', *whole[21:]])
    with following(log, path) as follower:
        with pytest.raises(Unavailable, match="decision 20 cannot be read"):
            follower.read({0: end_of(whole)}, lambda rows: rows, wait=0.5)
        log.values = whole
        check(follower, whole)


def test_two_ledgers_with_one_index_do_not_share_it(path: Path) -> None:
    one, other = busy_world().log, World()
    other.open("adult", epsilon="1", filter="basic")
    for number in range(300):
        other.ask("pure:0.001", dataset="adult", analyst=f"b{number % 3}")
    logs = ListedLog(one[:40]), ListedLog(other.log[:40])
    with following(logs[0], path) as first, following(logs[1], path) as second:
        for end in range(41, 60):
            for follower, log, whole in (first, logs[0], one), (second, logs[1], other.log):
                log.values = whole[:end]
                follower.wake()
                check(follower, log.values)
        troubles = [each.trouble for each in (first, second) if each.trouble]
        assert troubles
        assert "give each its own" in troubles[0]


def test_an_indexer_stops_at_once_in_the_middle_of_a_log(path: Path) -> None:
    whole = busy_world(400).log
    before = threads_named("usage-index")
    with following(ListedLog(whole), path) as follower:
        follower.wake()
        assert len(threads_named("usage-index")) == len(before) + 1
    assert threads_named("usage-index") <= before
