from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streams.tasks.broadcast import Broadcast, Subscription
from tests.patience import PATIENCE_S
from tests.streams.bodies import decision


async def test_a_slow_reader_loses_the_oldest_decisions_and_delays_no_other() -> None:
    broadcast = Broadcast(max_behind=3)
    slow, quick = broadcast.subscribe(), broadcast.subscribe()
    for number in range(5):
        broadcast.send([decision(number)])
        assert (await anext(quick)).partition_sequence == number
    assert [(await anext(slow)).partition_sequence for _ in range(3)] == [2, 3, 4]


async def test_decisions_may_come_from_another_thread() -> None:
    broadcast = Broadcast()
    reader = broadcast.subscribe()
    await asyncio.to_thread(broadcast.send, [decision(7)])
    assert (await anext(reader)).partition_sequence == 7


async def test_a_closed_reader_receives_nothing() -> None:
    broadcast = Broadcast()
    reader = broadcast.subscribe()
    assert broadcast.has_readers
    await reader.aclose()
    assert not broadcast.has_readers
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts how often it is called from outside."""

    called = 0

    def call_soon_threadsafe(self, *arguments: Any, **more: Any) -> asyncio.Handle:
        self.called += 1
        return super().call_soon_threadsafe(*arguments, **more)


class Elsewhere(threading.Thread):
    """An event loop in a thread of its own, until it is left."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = CountingLoop()
        self.start()

    def run(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    def call(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(PATIENCE_S)

    def numbers(self, reader: Subscription[int], count: int) -> list[int]:
        """Return what a reader of this loop reads next."""

        async def read() -> list[int]:
            return [await anext(reader) for _ in range(count)]

        return asyncio.run_coroutine_threadsafe(read(), self.loop).result(PATIENCE_S)

    def leave(self) -> None:
        if self.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.join(PATIENCE_S)


@pytest.fixture
def elsewhere() -> Iterator[Callable[[], Elsewhere]]:
    made: list[Elsewhere] = []

    def make() -> Elsewhere:
        made.append(Elsewhere())
        return made[-1]

    yield make
    for each in made:
        each.leave()


def test_an_event_loop_with_50_readers_is_called_once_a_send(
    elsewhere: Callable[[], Elsewhere],
) -> None:
    broadcast = Broadcast[int]()
    there = elsewhere()
    readers = [there.call(broadcast.subscribe) for _ in range(50)]
    before = there.loop.called
    for number in range(3):
        broadcast.send([number])
    broadcast.end()
    assert there.loop.called - before == 4
    assert [there.numbers(reader, 3) for reader in readers] == [[0, 1, 2]] * 50
    for reader in readers:
        with pytest.raises(StopAsyncIteration):
            asyncio.run_coroutine_threadsafe(reader.__anext__(), there.loop).result(PATIENCE_S)


def test_a_closed_loop_is_forgotten_and_the_others_are_sent_everything(
    elsewhere: Callable[[], Elsewhere],
) -> None:
    broadcast = Broadcast[int]()
    first, gone, last = elsewhere(), elsewhere(), elsewhere()
    readers = [(each, each.call(broadcast.subscribe)) for each in (first, gone, last)]
    gone.leave()
    for number in range(3):
        broadcast.send([number])
    assert [each.numbers(reader, 3) for each, reader in readers if each is not gone] == [
        [0, 1, 2]
    ] * 2
    readers[1][1].close()
    for each, reader in readers:
        if each is not gone:
            each.call(reader.close)
    assert not broadcast.has_readers


def test_readers_of_a_closed_event_loop_are_removed(
    elsewhere: Callable[[], Elsewhere],
) -> None:
    broadcast = Broadcast[int]()
    gone = elsewhere()
    readers = [gone.call(broadcast.subscribe) for _ in range(3)]
    assert broadcast.has_readers
    gone.leave()
    assert not broadcast.has_readers
    broadcast.send([0])
    assert [reader.ready() for reader in readers] == [None] * 3


def test_readers_come_and_leave_in_many_threads_and_none_is_lost(
    elsewhere: Callable[[], Elsewhere],
) -> None:
    broadcast = Broadcast[int]()

    def come() -> list[Subscription[int]]:
        return [broadcast.subscribe() for _ in range(300)]

    def leave(readers: list[Subscription[int]]) -> None:
        for reader in readers:
            reader.close()

    many = [elsewhere() for _ in range(4)]
    leaving = [each.call(come) for each in many]
    staying: dict[Elsewhere, list[Subscription[int]]] = {}
    at_once = [threading.Thread(target=leave, args=[readers]) for readers in leaving]
    at_once += [
        threading.Thread(target=lambda each=each: staying.update({each: each.call(come)}))
        for each in many
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads meet within a call
    try:
        for thread in at_once:
            thread.start()
        for thread in at_once:
            thread.join(PATIENCE_S)
    finally:
        sys.setswitchinterval(interval)
    broadcast.send([7])
    for each, readers in staying.items():
        assert [each.numbers(reader, 1) for reader in readers] == [[7]] * 300
        leave(readers)
    assert not broadcast.has_readers, "nobody who left is kept"


async def test_ready_items_are_read_in_order() -> None:
    broadcast = Broadcast[int]()
    reader = broadcast.subscribe()
    broadcast.send([0, 1, 2])
    assert await anext(reader) == 0
    assert [reader.ready() for _ in range(3)] == [1, 2, None]
    broadcast.send([4])
    assert await anext(reader) == 4


async def test_a_reader_that_stops_early_is_removed() -> None:
    broadcast = Broadcast[int]()

    async def first() -> int:
        async for number in broadcast.subscribe():
            return number
        return -1

    for number in range(5):
        reading = asyncio.create_task(first())
        await asyncio.sleep(0)
        broadcast.send([number, -2])
        assert await reading == number
        assert not broadcast.has_readers


async def test_a_waiting_reader_is_not_garbage_collected() -> None:
    broadcast = Broadcast[int]()
    seen: list[int] = []

    async def read() -> None:
        seen.extend([number async for number in broadcast.subscribe()])

    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: loop.create_task(read()) and None)
    for number in range(3):
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
        broadcast.send([number])
    broadcast.end()
    for _ in range(3):
        await asyncio.sleep(0)
    assert seen == [0, 1, 2]


async def test_a_reader_may_be_closed_by_the_collector_in_a_thread_that_subscribes() -> None:
    broadcast = Broadcast[int]()
    reader = broadcast.subscribe()
    closing = threading.Thread(target=reader.close, daemon=True)
    with broadcast._replacing:  # as where an allocation within collects who closes it
        closing.start()
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
    assert not broadcast.has_readers
