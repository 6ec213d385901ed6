"""An index says what a count of the whole log says, and knows which log it is of."""

from __future__ import annotations

import multiprocessing
from fractions import Fraction
from pathlib import Path

import apsw
import pytest

from accountant.partition import hash_of
from accountant.views.tallies import LogDiffers, UnreadableDecision
from accountant.views.usage import BYS, OTHERS
from streams.index import UsageIndex
from streams.index.beginning import IndexPosition
from streams.index.usage_index import NOTHING, IndexMoved, UnusableIndex
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import World
from tests.patience import PATIENCE_S
from tests.streams.index.logs import (
    PURPOSES,
    ListedLog,
    busy_world,
    filled,
    index_counts,
    recounted,
    rows_of,
)

STARTS = ()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db.index"


@pytest.mark.parametrize("slices", [1, 7, 1_000])
@pytest.mark.parametrize("by", BYS)
def test_an_index_equals_a_count_of_the_whole_log(path: Path, by: str, slices: int) -> None:
    log = busy_world().log
    index = filled(path, log, slices=slices)
    for dataset in ("census", "adult"):
        assert index_counts(rows_of(index), dataset, by) == recounted(log, dataset, by)
    assert rows_of(index).usage("nowhere") == []
    assert index.reached() == IndexPosition(len(log) - 1, hash_of(log[-1]), hash_of(log[0]))


@pytest.mark.parametrize("slices", [1, 2, 100])
def test_what_reservations_give_back_is_taken_off_wherever_batches_end(
    path: Path, slices: int
) -> None:
    scene = Scene()
    scene.ask("pure:0.5")
    scene.do("reserve", "begin", "settle_lower", "reserve", "void", "reserve")
    rows = rows_of(filled(path, scene.log, slices=slices))
    for by in BYS:
        (row,) = rows.usage("census", by)
        assert (row.granted, row.refused) == (4, 0), by
        assert Fraction(row.spent) == Fraction("0.625"), by


def test_a_purpose_may_be_any_text_and_is_one_key(path: Path) -> None:
    rows = rows_of(filled(path, busy_world().log)).usage("adult", "purpose")
    assert {row.key for row in rows} == set(PURPOSES)


def test_sums_are_exact_beyond_64_bits(path: Path) -> None:
    world = World(batch=100)
    world.open("census", epsilon="1000", filter="basic")
    claims = ["pure:5.0000000000000000000000000000000000000001", "pure:9.9"] * 20
    for claim in claims:
        world.ask(claim)
    (row,) = rows_of(filled(path, world.log, slices=3)).usage("census")
    assert row.granted == 40
    assert Fraction(row.spent) == sum(Fraction(claim.split(":")[1]) for claim in claims)


def test_rows_are_of_the_last_decision_by_number_where_the_clock_was_set_back(path: Path) -> None:
    world = busy_world()
    last = world.decisions[-2]
    rows = rows_of(filled(path, world.log)).usage("adult", "analyst")
    by_sequence = {row.sequence: row.last_decided_at for row in rows}
    assert by_sequence[max(by_sequence)] == last.decided_at
    assert last.decided_at < max(decision.decided_at for decision in world.decisions)


def test_a_reopened_index_resumes_at_its_position(path: Path) -> None:
    log = busy_world().log
    filled(path, log[:20]).close()
    index = UsageIndex.open(path)
    assert index.reached() == IndexPosition(19, hash_of(log[19]), hash_of(log[0]))
    index.take(0, index.reached(), log[20:])
    assert index_counts(rows_of(index), "adult", "day") == recounted(log, "adult", "day")


def test_rows_and_position_are_written_in_one_transaction(path: Path) -> None:
    log = busy_world().log
    index = filled(path, log[:20])
    # The last statement of the transaction fails, as on a full disk.
    db = apsw.Connection(str(path))
    db.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON reached BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    with pytest.raises(Exception, match="full"):
        index.take(0, index.reached(), log[20:])
    db.execute("DROP TRIGGER full")
    db.close()
    assert index_counts(rows_of(index), "adult", "day") == recounted(log[:20], "adult", "day")
    index.take(0, index.reached(), log[20:])
    assert index_counts(rows_of(index), "adult", "day") == recounted(log, "adult", "day")


def test_decisions_that_do_not_follow_are_not_taken_in(path: Path) -> None:
    log, other = busy_world().log, World()
    index = filled(path, log[:20])
    before = index_counts(rows_of(index), "adult", "analyst")
    other.open("adult", epsilon="1")
    for values in ([log[21]], [log[19]], [other.log[1]]):
        with pytest.raises(LogDiffers):
            index.take(0, index.reached(), values)
    with pytest.raises(LogDiffers):
        index.take(0, IndexPosition(19, "sha256:00", hash_of(log[0])), log[20:21])
    with pytest.raises(UnreadableDecision, match="decision 20 "):
        index.take(0, index.reached(), [b"{" + log[20]])
    assert index.reached().sequence == 19
    assert index_counts(rows_of(index), "adult", "analyst") == before


def test_a_count_from_another_position_is_rejected(path: Path) -> None:
    log = busy_world().log
    one, other = UsageIndex.open(path), UsageIndex.open(path)
    reached = one.take(0, NOTHING, log[:20])
    assert other.take(0, NOTHING, log[:30]) == reached
    assert index_counts(rows_of(other), "adult", "day") == recounted(log[:20], "adult", "day")


def follow(path: Path, log: list[bytes], slices: int) -> None:
    index = UsageIndex.open(path)
    while (place := index.reached()).sequence < len(log) - 1:
        first = place.sequence + 1
        index.take(0, place, log[first : first + slices])
    index.close()


def test_two_processes_at_once_count_each_decision_once(path: Path) -> None:
    log = busy_world(120).log
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=follow, args=(path, log, slices)) for slices in (1, 3)]
    for each in both:
        each.start()
    for each in both:
        each.join(PATIENCE_S)
    assert [each.exitcode for each in both] == [0, 0]
    index = UsageIndex.open(path)
    for by in BYS:
        assert index_counts(rows_of(index), "adult", by) == recounted(log, "adult", by)
    assert apsw.Connection(str(path)).pragma("integrity_check") == "ok"


def test_the_index_lists_the_log_position_of_each_decision_of_a_dataset(path: Path) -> None:
    world = busy_world()
    index = filled(path, world.log)
    expected = [
        (decision.sequence, decision.partition_sequence)
        for decision in world.decisions
        if decision.dataset == "adult" and decision.sequence is not None
    ]
    assert rows_of(index).places("adult", limit=1_000) == expected
    assert rows_of(index).places("adult", after=expected[3][0], limit=2) == expected[4:6]
    assert rows_of(index).places("nowhere") == []


def test_more_keys_than_a_server_shows_are_one_row(path: Path) -> None:
    log = busy_world().log
    index = filled(path, log)
    rows, whole = rows_of(index).usage("adult", limit=2), rows_of(index).usage("adult")
    assert [row.key for row in rows] == ["a0", "a1", OTHERS] or rows[-1].key == OTHERS
    assert len(rows) == 3
    for name in ("granted", "refused"):
        assert sum(getattr(row, name) for row in rows) == sum(getattr(row, name) for row in whole)
    assert sum(Fraction(row.spent) for row in rows) == sum(Fraction(row.spent) for row in whole)


def test_another_programs_file_is_left_alone(path: Path) -> None:
    apsw.Connection(str(path)).execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(UnusableIndex, match="move it away"):
        UsageIndex.open(path)
    assert rows_of(UsageIndex.temporary(path)).usage("census") == []
    path.with_name("text").write_text("not a database, and not short enough to be a header" * 9)
    with pytest.raises(UnusableIndex):
        UsageIndex.open(path.with_name("text"))
    assert path.read_bytes() == before


def test_an_index_of_another_version_starts_again(path: Path) -> None:
    filled(path, busy_world().log).close()
    apsw.Connection(str(path)).pragma("user_version", 99)
    index = UsageIndex.open(path)
    assert index.reached() == NOTHING
    assert rows_of(index).usage("census") == []


def test_a_copy_of_one_process_leaves_the_file_as_it_is(path: Path) -> None:
    log = busy_world().log
    filled(path, log[:20]).close()
    copy = UsageIndex.temporary(path)
    copy.take(0, copy.reached(), log[20:])
    assert index_counts(rows_of(copy), "adult", "day") == recounted(log, "adult", "day")
    assert UsageIndex.open(path).reached().sequence == 19


@pytest.mark.parametrize("copied", [False, True])
def test_catching_up_starts_again_on_another_log_of_equal_length(path: Path, copied: bool) -> None:
    log = busy_world().log
    filled(path, log).close()
    other = World()
    other.open("adult", epsilon="1", filter="basic")
    while len(other.log) < len(log):
        other.ask("pure:0.001", dataset="adult", analyst="b")
    index = UsageIndex.temporary(path) if copied else UsageIndex.open(path)
    index.catch_up(ListedLog(other.log))
    assert index.reached().head == hash_of(other.log[-1])
    for dataset in ("adult", "census"):
        assert index_counts(rows_of(index), dataset, "analyst") == recounted(
            other.log, dataset, "analyst"
        )


def test_a_reader_notices_writes_of_another_process(path: Path) -> None:
    log = busy_world().log
    index = filled(path, log[:20])
    known = index.reached()
    with index.at({0: known}) as rows:
        assert index_counts(rows, "adult", "day") == recounted(log[:20], "adult", "day")
    UsageIndex.open(path).take(0, known, log[20:])
    with pytest.raises(IndexMoved), index.at({0: known}):
        pass
