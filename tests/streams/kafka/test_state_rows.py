"""When the rows of `state` that a reader found are all that there are."""

from __future__ import annotations

import msgspec

from accountant.records import decode_partition_row
from streams.kafka.deployment import Deployment
from streams.kafka.following.state_rows import StateRows, are_all
from tests.accountant.world import World, opened


def spent_from() -> World:
    world = opened()
    world.open("other", epsilon="1", delta="1e-6")
    return world


def test_rows_are_all_only_with_every_row_as_it_was_written() -> None:
    world = spent_from()
    *before, _ = [value for _, value in world.rows()]
    world.ask({"type": "pure", "epsilon": "0.1"})
    *rows, own = [value for _, value in world.rows()]
    partition = decode_partition_row(own)
    assert len(rows) == 4  # two datasets and their owners
    assert are_all(partition, rows)
    assert are_all(partition, reversed(rows))
    assert not are_all(partition, rows[:1])
    assert not are_all(partition, [])
    assert not are_all(partition, before)  # one of them is older
    assert not are_all(partition, [*rows, rows[0]])


def test_a_partition_row_from_before_there_were_checksums_counts_its_rows() -> None:
    *rows, own = [value for _, value in spent_from().rows()]
    partition = msgspec.structs.replace(decode_partition_row(own), checksum=msgspec.UNSET)
    assert are_all(partition, rows)
    assert not are_all(partition, rows[:1])


async def _nothing(_partition: int, _row: object) -> None:
    pass


def test_the_time_of_a_partition_is_that_of_its_latest_decision() -> None:
    rows = StateRows(Deployment(bootstrap="127.0.0.1:9"), _nothing)
    rows.take_time(0, 7, 1_000)
    rows.take_time(0, 6, 2_000)  # read again, from before
    assert rows.decided == {0: (7, 1_000)}
    rows.take_time(0, 8, 500)  # a clock that was ahead is set back
    rows.take_time(3, 0, 100)
    assert rows.decided == {0: (8, 500), 3: (0, 100)}
