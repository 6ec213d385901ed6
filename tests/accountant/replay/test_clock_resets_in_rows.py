"""How often the clock was set back is no dataset's: the partition's row alone holds it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import msgspec
import pytest

from accountant.partition import Partition
from accountant.records import decode_partition_row, encode
from accountant.replay.replay import Replay, StateMismatch
from tests.accountant.partition.division import ask_for_outcome, days, divide, divided
from tests.accountant.partition.test_period_limits import DAILY, set_back
from tests.accountant.world import START, World
from tests.every_case import check_each, check_rows

WEEKLY = {"part": "0.1", "period": "P7D"}


def from_rows(world: World, last: int, *, keeps_checksum: bool = True, **changed: int) -> Partition:
    """Refold the rows, the partition's one with other resets, and the last decisions."""
    *rows, (key, own) = world.rows()
    row = decode_partition_row(own)
    fields = {name: value or msgspec.UNSET for name, value in changed.items()}
    if not keeps_checksum:
        fields["checksum"] = msgspec.UNSET
    refold = Replay(world.genesis)
    for each in (*rows, (key, encode(msgspec.structs.replace(row, **fields)))):
        refold.take_row(*each)
    assert refold.start is not None
    for value in world.log[-last:]:
        refold.take_decision(value)
    return refold.finish()


def a_week() -> World:
    """A weekly pace that is used up, and the log a day on; nothing lately was charged to it."""
    world = divided()
    divide(world, "dataset", pace=WEEKLY)
    world.now = START + days(8)
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    world.now += days(1)
    assert ask_for_outcome(world, "ana", "0.1") == "dataset pace"
    world.commit()
    return world


def wrong_resets() -> Iterator[tuple[int, int]]:
    yield from product((1, 2, 7), (0, START, START + days(8)))


def test_a_row_with_another_count_restarts_no_period() -> None:
    def check_case(resets: int, reset_at: int) -> None:
        world = a_week()
        with pytest.raises(StateMismatch):
            from_rows(world, 1, resets=resets, reset_at=reset_at)
        from_rows(world, 1)

    check_rows(check_case, list(wrong_resets()))


def test_a_row_that_contradicts_a_reset_of_the_log_is_noticed() -> None:
    def check_case(keeps_checksum: bool, wrong: tuple[int, int]) -> None:
        world = divided()
        divide(world, "dataset", pace=DAILY)
        world.now = START + days(5.5)
        assert ask_for_outcome(world, "ana", "0.1") == "granted"
        set_back(world, START + days(2.5))
        assert ask_for_outcome(world, "ana", "0.1") == "dataset pace"
        world.commit()
        resets, reset_at = wrong
        if (resets, reset_at) == (2, START + days(2.5)) and not keeps_checksum:
            return  # the log's end has one reset: there may have been one before
        with pytest.raises(StateMismatch):
            from_rows(world, 2, keeps_checksum=keeps_checksum, resets=resets, reset_at=reset_at)
        state = from_rows(world, 2)
        assert state.resets == (1, START + days(2.5))

    check_each(
        check_case, [True, False], [(0, 0), (1, START), (1, 0), (2, START + days(2.5)), (3, START)]
    )


def test_levels_know_of_no_more_resets_than_the_row() -> None:
    world = divided()
    divide(world, "dataset", pace=WEEKLY)
    world.now = START + days(8)
    assert ask_for_outcome(world, "ana", "0.9") == "dataset pace"
    set_back(world, START + days(7.5))
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    world.now += days(1)
    assert ask_for_outcome(world, "ana", "0.1") == "dataset pace"
    world.commit()
    with pytest.raises(StateMismatch, match="clock resets"):
        from_rows(world, 1, keeps_checksum=False, resets=0, reset_at=0)


def test_a_reset_to_the_beginning_of_time_is_one() -> None:
    world = a_week()
    set_back(world, 0)
    state = from_rows(world, 1)
    assert state.resets == (1, 0)


def test_a_row_with_another_number_of_clock_resets_than_the_log_is_refused() -> None:
    world = a_week()
    with pytest.raises(StateMismatch, match="clock resets"):
        from_rows(world, len(world.log), keeps_checksum=False, resets=1, reset_at=START)
