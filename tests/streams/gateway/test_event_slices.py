"""What a stream reads of the log: slices, as far as it is behind, and no more than it sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from streams.embedded.service import EmbeddedService
from streams.gateway.events.event import EVERYTHING
from streams.gateway.events.position import Position
from streams.gateway.events.replay_buffer import MAX_BUFFERED, SLICE, ReplayBuffer
from streams.gateway.events.stream import PIECE_BYTES, EventStream, check_position
from streams.log.appended import Appended
from streams.log.async_log import AsyncLog
from streams.settings import Settings
from tests.streams.clock import TestClock


class RecordedLog(AsyncLog):
    """A log that notes how much is read of it."""

    reads: list[int]

    async def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        self.reads.append(limit)
        return await super().read(partition, first, limit)


class ReadRecorder(EmbeddedService):
    """A ledger in a file that notes how much is read of its log."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._async_log = log = RecordedLog(self._decisions, self._announced.appended.subscribe)
        self.reads = log.reads = []

    async def submit_some(self, count: int) -> None:
        """Have so many decisions made, of bodies that are no JSON."""
        while count:
            some = min(count, 2_000)
            await asyncio.gather(*[self.submit("requests", b"?", wait=60) for _ in range(some)])
            count -= some


@pytest.fixture
async def recorder(file: Path, clock: TestClock) -> AsyncIterator[ReadRecorder]:
    service = ReadRecorder.open(file, Settings(), clock=clock)
    yield service
    await service.close()


@pytest.fixture
async def ring(recorder: ReadRecorder) -> AsyncIterator[ReplayBuffer]:
    made = ReplayBuffer(recorder, asyncio.Event())
    await made.ready()
    yield made
    made.close()


async def numbers_of(stream: AsyncIterator[bytes], count: int) -> list[int]:
    """Return the numbers of so many decisions or some more, from pieces that are not too long."""
    found: list[int] = []
    while len(found) < count:
        piece = await anext(stream)
        assert len(piece) < PIECE_BYTES + 10_000
        lines = [line[6:] for line in piece.splitlines() if line.startswith(b"data: ")]
        found += [json.loads(line)["partition_sequence"] for line in lines]
    return found


async def test_a_late_stream_reads_the_log_in_slices_without_blocking_others(
    recorder: ReadRecorder, ring: ReplayBuffer
) -> None:
    begin = ring.position
    await recorder.submit_some(3_000)
    await ring.reach((3_000,))
    slow = EventStream(recorder, ring, EVERYTHING, begin).pieces([])
    other = EventStream(recorder, ring, EVERYTHING, None).pieces([])
    recorder.reads.clear()
    found = await numbers_of(slow, 1_000)
    assert len(recorder.reads) == 10, "no more is read than is sent"
    assert max(recorder.reads) == SLICE
    assert b"from now on" in await anext(other)
    assert (await anext(other)).startswith(b"id: ")
    await recorder.submit_some(1)
    assert await numbers_of(other, 1) == [3_001]
    found += await numbers_of(slow, 2_001)
    assert found == list(range(1, 3_002))


async def test_a_slow_stream_reads_missed_decisions_from_the_log(
    recorder: ReadRecorder, ring: ReplayBuffer
) -> None:
    stream = EventStream(recorder, ring, EVERYTHING, None).pieces([])
    await recorder.submit_some(10)
    found = await numbers_of(stream, 10)
    assert not recorder.reads
    await recorder.submit_some(3 * MAX_BUFFERED)  # far more than is kept, while it does not read
    await ring.reach((3 * MAX_BUFFERED + 10,))
    found += await numbers_of(stream, 3 * MAX_BUFFERED)
    assert len(recorder.reads) > 1
    await recorder.submit_some(5)
    found += await numbers_of(stream, 5)
    assert found == list(range(1, 3 * MAX_BUFFERED + 16))


async def test_the_replay_buffer_is_bounded(recorder: ReadRecorder, ring: ReplayBuffer) -> None:
    await recorder.submit_some(5 * MAX_BUFFERED)
    await ring.reach((5 * MAX_BUFFERED,))
    assert MAX_BUFFERED <= len(ring._buffered) < 2 * MAX_BUFFERED + SLICE


async def test_a_stream_over_20000_decisions_behind_is_ended(
    recorder: ReadRecorder, ring: ReplayBuffer
) -> None:
    stream = EventStream(recorder, ring, EVERYTHING, None).pieces([])
    assert b"from now on" in await anext(stream)
    assert (await anext(stream)).startswith(b"id: ")
    await recorder.submit_some(22_000)
    await ring.reach((22_000,))
    assert [piece async for piece in stream] == [], "the client reconnects, and gets the reason"


async def test_decisions_missed_by_the_broadcast_are_read_from_the_log(
    recorder: ReadRecorder, ring: ReplayBuffer
) -> None:
    stream = EventStream(recorder, ring, EVERYTHING, None).pieces([])
    broadcast: Any = recorder._announced.appended
    recorder._announced.appended = type(broadcast)()  # of what follows nobody hears
    await recorder.submit_some(300)
    recorder._announced.appended = broadcast
    partition = recorder._writer.partition
    assert partition is not None
    recorder._on_begin(partition)  # as after a commit of which it was not known whether it was made
    assert await numbers_of(stream, 300) == list(range(1, 301))
    # A decision that comes twice, or in part, is sent once.
    log = await recorder.log.read(0, 0, 1_000)
    for first, count in ((295, 6), (1, 300), (301, 0)):
        broadcast.send([Appended(0, first, log[first : first + count])])
    await recorder.submit_some(2)
    assert await numbers_of(stream, 2) == [301, 302]


async def test_a_server_waits_until_it_reaches_the_position_of_another_server(
    recorder: ReadRecorder, ring: ReplayBuffer
) -> None:
    broadcast: Any = recorder._announced.appended
    recorder._announced.appended = type(broadcast)()
    await recorder.submit_some(5)  # of which this server does not hear yet
    recorder._announced.appended = broadcast
    position = Position.of([await recorder.log.last(0)])
    checking = asyncio.create_task(check_position(recorder, ring, position))
    await asyncio.wait([checking], timeout=0.3)
    assert not checking.done()
    partition = recorder._writer.partition
    assert partition is not None
    recorder._on_begin(partition)
    await checking
    stream = EventStream(recorder, ring, EVERYTHING, position).pieces([])
    await recorder.submit_some(1)
    assert await numbers_of(stream, 1) == [6]
