"""One index of a log of several partitions, that several processes could want to keep."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from accountant.partition.key_hash import partition_of
from streams.errors import Unavailable
from streams.index import Indexer, UsageIndex
from streams.index.rows import Rows
from streams.index.usage_index import NOTHING
from tests.accountant.world import WINDOW, World
from tests.patience import PATIENCE_S
from tests.streams.index.logs import ListedLog, ListedLogs, end_of, index_counts, recounted, rows_of
from tests.streams.waiting import eventually

STARTS = ()
PARTITIONS = 2
NAMES = [
    next(name for name in map("d{}".format, range(99)) if partition_of(name.encode(), 2) == number)
    for number in range(PARTITIONS)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.index"


def world(number: int, requests: int = 40, *, window: int = WINDOW, analyst: str = "a") -> World:
    """Return a partition with a dataset of its own."""
    made = World(partitions=PARTITIONS, partition=number, window=window, batch=10)
    made.open(NAMES[number], epsilon="100", filter="basic")
    for each in range(requests):
        claim = f"pure:0.{each % 9 + 1}"
        made.ask(claim, dataset=NAMES[number], analyst=f"{analyst}{each % 3}")
    made.commit()
    return made


@contextlib.contextmanager
def following(
    logs: Sequence[ListedLog], path: Path | None, *, partitions: int = PARTITIONS
) -> Iterator[Indexer]:
    follower = Indexer(ListedLogs(logs), path, partitions=partitions, shared_log=True, limit=7)
    try:
        yield follower
    finally:
        follower.close()


def check(follower: Indexer, number: int, log: list[bytes]) -> None:
    def one(rows: Rows) -> object:
        return index_counts(rows, NAMES[number], "analyst")

    found = follower.read({number: end_of(log)}, one, wait=PATIENCE_S)
    assert found == recounted(log, NAMES[number], "analyst")


def assert_not_read_again(log: ListedLog) -> None:
    """Decision 0, the last one, and what comes after it were looked at, and none between."""
    assert set(log.firsts) <= {0, end_of(log.values), len(log.values)}
    assert len(log.values) > 2 * 7  # slices


@pytest.mark.parametrize("in_file", [True, False])
def test_each_partition_is_counted_and_metrics_are_of_all(path: Path, in_file: bool) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with following(logs, path if in_file else None) as follower:
        for number, log in enumerate(logs):
            check(follower, number, log.values)
        ends = {number: end_of(log.values) for number, log in enumerate(logs)}
        rows, others = follower.read(ends, lambda index: index.first_analysts(4), wait=PATIENCE_S)
        assert {row.dataset for row in rows} <= set(NAMES)
        assert sum(row.granted + row.refused for row in rows) + others == 80
        assert follower.trouble is None
    assert path.exists() is in_file


def test_a_reader_without_a_position_waits_for_the_current_end(path: Path) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with following(logs, path) as follower:
        found = follower.read(
            {1: -1}, lambda rows: index_counts(rows, NAMES[1], "day"), wait=PATIENCE_S
        )
    assert found == recounted(logs[1].values, NAMES[1], "day")


def test_only_a_partition_with_another_decision_starts_again(path: Path) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with following(logs, path) as follower:
        for number, log in enumerate(logs):
            check(follower, number, log.values)
    # The same decision 0, as of a log that was restored from a copy; then other ones.
    other = ListedLog(world(1, analyst="b").log)
    assert other.values[0] == logs[1].values[0]
    logs[0].firsts.clear()
    with following([logs[0], other], path) as follower:
        check(follower, 1, other.values)
        check(follower, 0, logs[0].values)
    assert_not_read_again(logs[0])


def test_another_ledger_starts_the_whole_index_again(path: Path) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with following(logs, path) as follower:
        check(follower, 0, logs[0].values)
        check(follower, 1, logs[1].values)
    one = World(window=WINDOW + 1)
    one.open(NAMES[1], epsilon="1", filter="basic")
    one.ask("pure:0.25", dataset=NAMES[1], analyst="ana")
    one.commit()
    with following([ListedLog(one.log)], path, partitions=1) as follower:
        ends = {0: end_of(one.log)}
        found = follower.read(
            ends, lambda rows: index_counts(rows, NAMES[1], "analyst"), wait=PATIENCE_S
        )
        assert found == recounted(one.log, NAMES[1], "analyst")
        rows, others = follower.read(ends, lambda index: index.first_analysts(99), wait=PATIENCE_S)
        assert (len(rows), others) == (1, 0)


def test_a_ledger_that_is_replaced_meanwhile_starts_the_index_again(path: Path) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with following(logs, path) as follower:
        check(follower, 0, logs[0].values)
        check(follower, 1, logs[1].values)
        for number, log in enumerate(logs):
            log.values = world(number, 60, window=WINDOW + 1, analyst="c").log
            follower.wake(number)
        for number, log in enumerate(logs):
            check(follower, number, log.values)
        assert follower.trouble is None


@pytest.mark.parametrize("what", ["away", "damaged", "contradicts itself"])
def test_an_unreadable_partition_does_not_delay_the_others(path: Path, what: str) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    whole = logs[0].values
    if what == "away":
        logs[0].fault = Unavailable("the broker is away")
    elif what == "damaged":
        logs[0].values = [*whole[:20], b'{"version":2}', *whole[21:]]
    else:
        logs[0].values = whole[:20] + whole[21:]
    why = {"away": "the broker is away", "damaged": "decision 20 cannot be read"}
    with following(logs, path) as follower:
        for _ in range(2):
            with pytest.raises(Unavailable, match="partition 0: it has reached") as reported:
                follower.read({0: end_of(whole)}, lambda rows: rows, wait=0.6)
            assert why.get(what, "decision 21 follows 19") in str(reported.value)
            check(follower, 1, logs[1].values)
        assert "partition 0" in str(follower.trouble)
        logs[0].fault, logs[0].values = None, whole
        check(follower, 0, whole)
        eventually(lambda: follower.trouble is None)


HOLD = """
import sys
from pathlib import Path
from streams.index.index_lock import IndexLock
held = IndexLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked_elsewhere(path: Path) -> Iterator[None]:
    """Have another process keep an index."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            other.kill()


def test_an_index_locked_by_another_process_is_copied_and_not_written(path: Path) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with following(logs, path) as follower:
        check(follower, 0, logs[0].values)
        check(follower, 1, logs[1].values)
    index = UsageIndex.open(path)
    before = index.reached(0), index.reached(1)
    index.close()
    longer = [*logs[0].values, *world(0, 60).log[len(logs[0].values) :]]
    logs[0].values = longer
    logs[1].firsts.clear()
    with locked_elsewhere(path), following(logs, path) as follower:
        check(follower, 0, longer)
        assert "Give each its own" in str(follower.trouble)
        check(follower, 1, logs[1].values)
        assert_not_read_again(logs[1])
    index = UsageIndex.open(path)
    assert (index.reached(0), index.reached(1)) == before
    index.close()
    with following(logs, path) as follower:
        check(follower, 0, longer)
        assert follower.trouble is None


def test_a_file_that_is_free_again_is_taken_over(path: Path) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with locked_elsewhere(path):
        follower = Indexer(ListedLogs(logs), path, partitions=PARTITIONS, shared_log=True)
        check(follower, 0, logs[0].values)
        assert "is in use: process" in str(follower.trouble)
        assert not path.exists()
    try:
        eventually(lambda: follower.trouble is None)
        check(follower, 0, logs[0].values)
        check(follower, 1, logs[1].values)
    finally:
        follower.close()
    index = UsageIndex.open(path)
    assert index.partitions() == {0, 1}
    index.close()


def test_two_indexers_in_one_process_detect_each_other(path: Path) -> None:
    logs = [ListedLog(world(number).log) for number in range(PARTITIONS)]
    with following(logs, path) as first:
        check(first, 0, logs[0].values)
        with following(logs, path) as second:
            check(second, 0, logs[0].values)
            assert "is in use: process" in str(second.trouble)
        check(first, 1, logs[1].values)
        assert first.trouble is None


def test_one_partition_can_be_reset_without_the_others(path: Path) -> None:
    index = UsageIndex.open(path)
    worlds = [world(number) for number in range(PARTITIONS)]
    for number, each in enumerate(worlds):
        index.take(number, NOTHING, each.log)
    index.start_again(0)
    assert index.partitions() == {1}
    assert index.reached(0) == NOTHING
    rows = rows_of(index)
    assert not rows.knows(NAMES[0])
    assert rows.places(NAMES[0]) == []
    assert index_counts(rows, NAMES[1], "purpose") == recounted(worlds[1].log, NAMES[1], "purpose")
    index.take(0, NOTHING, worlds[0].log)
    for by in ("analyst", "purpose", "day", "month"):
        assert index_counts(rows, NAMES[0], by) == recounted(worlds[0].log, NAMES[0], by)
    index.close()


def test_a_dataset_that_another_ledger_had_elsewhere_is_counted_from_its_own_log(
    path: Path,
) -> None:
    index = UsageIndex.open(path)
    index.take(1, NOTHING, world(1).log)
    one = World(window=WINDOW + 1)
    one.open(NAMES[1], epsilon="1", filter="basic")
    one.ask("pure:0.25", dataset=NAMES[1], analyst="ana")
    one.commit()
    index.take(0, NOTHING, one.log)
    for by in ("analyst", "purpose", "day", "month"):
        assert index_counts(rows_of(index), NAMES[1], by) == recounted(one.log, NAMES[1], by)
    assert [place for _, place in rows_of(index).places(NAMES[1])] == [1, 2]
    index.close()
