"""When a reader of a ledger on Kafka shows a partition, and when it does not."""

from __future__ import annotations

import pytest

from accountant.partition import Partition
from accountant.replay.replay import state_rows
from accountant.times import from_iso
from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.service.follower.followed_states import FollowedStates
from tests.accountant.partition.division import divide, divided
from tests.accountant.replay.test_follow import forked, opened
from tests.accountant.world import World, code


def following(partitions: int = 1) -> FollowedStates:
    return FollowedStates(Deployment(bootstrap="127.0.0.1:9", partitions=partitions))


def shown(states: FollowedStates, number: int = 0) -> Partition | None:
    try:
        return states.partition(number)
    except Unavailable:
        return None


def asked() -> World:
    world = opened()
    for _ in range(3):
        assert code(world.ask("pure:0.1")) == "granted"
    return world


def read(states: FollowedStates, values: list[bytes], number: int = 0) -> None:
    for value in values:
        states.take(number, value)


async def followed_from_rows(world: World) -> FollowedStates:
    states = following()
    assert await states.take_rows(0, dict(world.rows()))
    states.read_on()
    read(states, world.log)
    states.reach_end(0)
    return states


async def test_a_partition_is_known_once_each_of_its_rows_has_been_read() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.5")
    states, rows = following(), dict(world.rows())
    for key in rows:
        for damaged in (None, b"garbage", b'{"type":"\xff"}'):
            read_rows = {**rows, key: damaged or b""}
            if damaged is None:
                del read_rows[key]
            assert not await states.take_rows(0, read_rows)
            assert states.read_on() == {}
            with pytest.raises(Unavailable, match=f"partition 0 in the topic .* {'missing'}"):
                states.partition(0)
    assert await states.take_rows(0, rows)
    assert shown(states) is None, "its log is not read from the time of the rows on"
    assert states.read_on() == {0: world.now}
    assert state_rows(states.partition(0)) == world.rows()
    assert states.notes() == []


async def test_a_log_without_rows_is_shown_once_it_was_read_from_its_beginning() -> None:
    world, states = asked(), following()
    assert await states.take_rows(0, {})
    assert states.read_on() == {0: 0}
    read(states, world.log[:3])
    assert shown(states) is None, "a membership that has ended would be in force again"
    assert states.notes() == [
        "partition 0 cannot be shown: its log is being read from decision 0 on"
    ]
    read(states, world.log[3:])
    states.reach_end(0)
    assert state_rows(states.partition(0)) == world.rows()


async def test_a_reader_that_starts_between_rows_and_decisions_has_both() -> None:
    world, states = asked(), following()
    rows = dict(world.rows())
    assert code(world.ask("pure:0.2")) == "granted"
    read(states, world.log)  # that go on while the rows are read
    assert await states.take_rows(0, rows)
    since = states.read_on()
    times = [from_iso(each.decided_at) for each in world.decisions]
    read(states, [value for value, at in zip(world.log, times, strict=True) if at >= since[0]])
    states.reach_end(0)
    assert state_rows(states.partition(0)) == world.rows()


async def test_a_decision_that_cannot_be_read_stops_its_partition_alone() -> None:
    forged = (b'"sequence":5', b'"sequence":7'), (b'"rules":1', b'"rules":"one"')
    for damaged in (b"garbage", b"[" * 5_000, b'{"type":"\xff"}', *forged):
        world, states = asked(), following(2)
        for number in range(2):
            assert await states.take_rows(number, dict(world.rows() if not number else {}))
        states.read_on()
        states.reach_end(1)
        assert code(world.ask("pure:0.1")) == "granted"
        value = world.log[-1]
        if isinstance(damaged, tuple):  # its caller can be answered, but it cannot be applied
            assert damaged[0] in value
            taken = states.take(0, value.replace(*damaged))
            assert taken is not None
            _, is_applied = taken
            assert not is_applied
        else:
            assert states.take(0, damaged) is None
        assert shown(states) is None
        assert states.known() == {0: False, 1: True}
        (note,) = states.notes()
        assert note.startswith("partition 0 cannot be shown: ")
        assert "accountant audit" in note
        read(states, [value])
        assert await states.take_rows(0, dict(world.rows())), "rows are not read again"
        states.read_on()
        assert shown(states) is None
        assert shown(states, 1) is not None
        states.lose(0)  # its topic was restored
        assert await states.take_rows(0, dict(world.rows()))
        states.read_on()
        assert shown(states) is not None


async def test_a_log_that_was_rolled_back_is_read_again_from_its_rows() -> None:
    one, other = forked("0.02"), forked("0.03", count=2)
    for how in ("its next decision", "its end", "its place"):
        states = await followed_from_rows(one)
        assert state_rows(states.partition(0)) == one.rows()
        if how == "its next decision":
            assert code(other.ask("pure:0.03")) == "granted"
            read(states, other.log[-1:])
        elif how == "its end":
            read(states, other.log[2:5])
            assert shown(states) is not None
            states.reach_end(0)
        else:
            states.lose(0)
        assert shown(states) is None
        assert states.rows._missing == {0}
        assert states.counts.requests() == {}
        # The rows may be older than the rollback.
        assert await states.take_rows(0, dict(one.rows()))
        states.read_on()
        read(states, other.log[4:5])
        states.reach_end(0)
        assert shown(states) is None
        assert await states.take_rows(0, dict(other.rows()))
        states.read_on()
        read(states, other.log)
        states.reach_end(0)
        assert state_rows(states.partition(0)) == other.rows()


async def test_decisions_after_the_rows_are_counted() -> None:
    world = asked()
    states = await followed_from_rows(world)
    assert states.counts.requests() == {}
    for claim, outcome in (("pure:0.1", "granted"), ("pure:9", "exhausted")):
        assert code(world.ask(claim)) == outcome
    assert code(world.ask("pure:0.1", dataset="elsewhere")) == "unknown_dataset"
    read(states, world.log[5:])
    read(states, world.log[4:])
    assert states.counts.requests() == {
        ("census", "granted", ""): 1,
        ("census", "refused", "exhausted"): 1,
    }
    assert states.counts.requests_on("census") == {
        ("granted", None): 1,
        ("refused", "exhausted"): 1,
    }
    assert states.counts.last_on("census") == len(world.log) - 2
