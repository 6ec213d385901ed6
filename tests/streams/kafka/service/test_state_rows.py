"""When the rows of `state` that a reader found are all that there are."""

from __future__ import annotations

import msgspec
import pytest
from aiokafka import TopicPartition

from accountant.records import Snapshot, decode_partition_row
from accountant.records.header import decode_header
from accountant.records.state_rows import Row
from accountant.views.alerts import alerts_of
from streams.kafka.deployment import Deployment
from streams.kafka.service.follower.state_rows import StateRowsFollower, is_complete
from tests.accountant.partition.circle import BASIC
from tests.accountant.partition.division import divide, divided
from tests.accountant.world import World, code, opened
from tests.streams.kafka.service.test_follower_limits import Gateway


def spent_from() -> World:
    world = opened()
    world.open("other", epsilon="1", delta="1e-6")
    return world


def test_rows_are_complete_only_with_every_row_as_it_was_written() -> None:
    world = spent_from()
    *before, _ = [value for _, value in world.rows()]
    world.ask({"type": "pure", "epsilon": "0.1"})
    *rows, own = [value for _, value in world.rows()]
    partition = decode_partition_row(own)
    assert len(rows) == 4  # two datasets and their owners
    assert is_complete(partition, rows)
    assert is_complete(partition, reversed(rows))
    assert not is_complete(partition, rows[:1])
    assert not is_complete(partition, [])
    assert not is_complete(partition, before)  # one of them is older
    assert not is_complete(partition, [*rows, rows[0]])


def test_a_legacy_partition_row_without_a_checksum_counts_its_rows() -> None:
    *rows, own = [value for _, value in spent_from().rows()]
    partition = msgspec.structs.replace(decode_partition_row(own), checksum=msgspec.UNSET)
    assert is_complete(partition, rows)
    assert not is_complete(partition, rows[:1])


async def _nothing(_partition: int, _row: object) -> None:
    pass


def test_the_time_of_a_partition_is_that_of_its_latest_decision() -> None:
    rows = StateRowsFollower(Deployment(bootstrap="127.0.0.1:9"), _nothing)
    rows.take_time(0, 7, 1_000)
    rows.take_time(0, 6, 2_000)  # read again, from before
    assert rows.decided == {0: (7, 1_000)}
    rows.take_time(0, 8, 500)  # a clock that was ahead is set back
    rows.take_time(3, 0, 100)
    assert rows.decided == {0: (8, 500), 3: (0, 100)}


DAMAGED = {
    "garbage": b"garbage",
    "nested": b"[" * 5_000,
    "no text": b'{"type":"\xff"}',
    "an amount that is none": b'"totals":{"epsilon":"x"',
}


def damaged(value: bytes, how: str) -> bytes:
    """Return another row in place of a limit's, or its own with another amount."""
    amount = b'"totals":{"epsilon":"0.1"'
    assert amount in value
    return value.replace(amount, DAMAGED[how]) if "amount" in how else DAMAGED[how]


@pytest.mark.parametrize("how", DAMAGED)
@pytest.mark.parametrize("place", ["first", "where it was"])
async def test_a_damaged_row_of_a_limit_hides_no_other_and_its_decision_replaces_it(
    how: str, place: str
) -> None:
    world = divided()
    for scope, name, more in (
        ("team", "blue", {"part": "0.5", "reserved": "0.2"}),
        ("analyst", "ana", {"part": "0.3", "reserved": "0.1"}),
        ("team", "red", {"part": "0.4"}),
    ):
        divide(world, scope, name, **more)
    for name in ("ana", "ben"):
        assert code(world.ask("pure:0.1", analyst=name)) == "granted"
    whole = Gateway(world)
    whole.read_rows(world.rows())
    (key,) = [k for k, _ in world.rows() if b'"analyst","name":"ana"' in k]
    as_read = dict(world.rows())
    as_read[key] = damaged(as_read[key], how)
    if place == "first":
        as_read = {key: as_read.pop(key), **as_read}
    gateway = Gateway(world)

    async def take(_partition: int, row: Row) -> None:
        gateway.take_row(row)

    reader = StateRowsFollower(
        Deployment(bootstrap="127.0.0.1:9"), take, gateway.limits.take_partition_row
    )
    await reader.hand_over(TopicPartition("state", 0), as_read)
    assert gateway.views == whole.views
    census = gateway.views["census"]
    levels = whole.limits.levels(census)
    assert gateway.limits.levels(census) == [each for each in levels if each.name != "ana"]
    for name in ("ben", "carl"):
        assert gateway.limits.budget(census, name) == whole.limits.budget(census, name)
    assert reader.decided == {0: (len(world.log) - 1, world.now)}
    # The owner's next word on it is enough.
    read = len(world.log)
    divide(world, "analyst", "ana", part="0.2")
    gateway.read(world.log[read:])
    (level,) = [each for each in gateway.limits.levels(census) if each.name == "ana"]
    assert (level.part, level.version) == ("0.2", 2)


async def test_a_partition_is_known_once_each_of_its_rows_has_been_read() -> None:
    taken, names = list[Row](), list[str]()

    async def take(_partition: int, row: Row) -> None:
        if isinstance(row, Snapshot) and row.dataset in names:
            raise ValueError("it cannot be read")
        taken.append(row)

    rows, state = dict(spent_from().rows()), TopicPartition("state", 0)
    reader = StateRowsFollower(Deployment(bootstrap="127.0.0.1:9"), take)
    names.append("census")  # whose checksum is right
    await reader.hand_over(state, dict(rows))
    assert taken
    assert reader.known == set()
    names.clear()
    await reader.hand_over(state, {key: row for key, row in rows.items() if key != b"census"})
    assert reader.known == set()
    await reader.hand_over(state, dict(rows))
    assert reader.known == {0}


async def test_an_inconsistent_row_of_a_limit_does_not_stop_the_reading_of_decisions() -> None:
    world = divided({**BASIC, "alert_at": ["0.5"]})
    divide(world, "team", "blue", part="0.1")
    rows = dict(world.rows())
    (key,) = [k for k in rows if b'"team","name":"blue"' in k]
    rows[key] = rows[key].replace(b'"budget":{"epsilon":"0.1",', b'"budget":{"epsilon":"x",')
    gateway = Gateway(world)

    async def take(_partition: int, row: Row) -> None:
        gateway.take_row(row)

    reader = StateRowsFollower(Deployment(bootstrap="127.0.0.1:9"), take)
    await reader.hand_over(TopicPartition("state", 0), rows)
    read = len(world.log)
    assert code(world.ask("pure:0.09", analyst="ana")) == "granted"
    values = world.log[read:]
    gateway.read(values)
    (alert,) = [each for value in values for each in alerts_of(decode_header(value))]
    assert alert.alert_id == "census/1/level/team/blue/1/0.5", "the decision alone says so"
    assert gateway.views["census"].totals["epsilon"] == "0.09"
