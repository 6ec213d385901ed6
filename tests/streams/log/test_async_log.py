"""Reads of a log from event loops are bounded, and end with it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from streams.errors import Unavailable
from streams.log.async_log import AsyncLog
from tests.patience import PATIENCE_S
from tests.streams.index.logs import ListedLog


class SlowLog(ListedLog):
    """A log whose reads wait until they may go on."""

    def __init__(self) -> None:
        super().__init__([b"0", b"1"])
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.reads = 0

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        self.reads += 1
        self.begun.set()
        assert self.may_end.wait(PATIENCE_S)
        return super().read(partition, first, limit)


async def begun(log: AsyncLog, slow: SlowLog) -> asyncio.Task[list[bytes]]:
    reading = asyncio.create_task(log.read(0, 0, 1))
    assert await asyncio.to_thread(slow.begun.wait, PATIENCE_S)
    return reading


async def test_a_read_that_waits_at_the_close_opens_nothing() -> None:
    slow = SlowLog()
    log = AsyncLog(slow)
    reading = await begun(log, slow)
    waiting = asyncio.create_task(log.read(0, 1, 1))
    await asyncio.sleep(0)  # it is in the queue
    log.close()
    slow.may_end.set()
    assert await reading == [b"0"]
    with pytest.raises(Unavailable, match="closing"):
        await waiting
    assert slow.reads == 1
    with pytest.raises(Unavailable, match="closing"):
        await log.last(0)
    log.close()


async def test_more_reads_than_may_wait_are_refused() -> None:
    slow = SlowLog()
    log = AsyncLog(slow, max_waiting=2)
    reading = await begun(log, slow)
    waiting = asyncio.create_task(log.read(0, 1, 1))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="2 reads of older decisions are waiting"):
        await log.read(0, 0, 1)
    slow.may_end.set()
    assert (await reading, await waiting) == ([b"0"], [b"1"])
    assert await log.read(0, 0, 2) == [b"0", b"1"]
    log.close()
