from __future__ import annotations

import asyncio

import pytest

from accountant.clock import iso
from accountant.outcomes import Outcome
from accountant.records import Decision
from streams.broadcast import Broadcast


def decision(number: int) -> Decision:
    return Decision(
        partition_sequence=number,
        previous="sha256:0",
        decided_at=iso(0),
        floor=iso(0),
        outcome=Outcome.EXPIRED,
    )


async def test_a_slow_reader_loses_the_oldest_and_delays_nobody() -> None:
    broadcast = Broadcast(most_behind=3)
    slow, quick = broadcast.subscribe(), broadcast.subscribe()
    for number in range(5):
        broadcast.send([decision(number)])
        assert (await anext(quick)).partition_sequence == number
    assert [(await anext(slow)).partition_sequence for _ in range(3)] == [2, 3, 4]
    assert (slow.lost, quick.lost) == (2, 0)


async def test_decisions_may_come_from_another_thread() -> None:
    broadcast = Broadcast()
    reader = broadcast.subscribe()
    await asyncio.to_thread(broadcast.send, [decision(7)])
    assert (await anext(reader)).partition_sequence == 7


async def test_a_reader_that_left_is_sent_nothing() -> None:
    broadcast = Broadcast()
    reader = broadcast.subscribe()
    assert broadcast.heard
    await reader.aclose()
    assert not broadcast.heard
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
