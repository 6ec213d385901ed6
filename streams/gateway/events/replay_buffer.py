"""The latest decisions in memory, shared by all of a server's streams, each at its own index.

A stream whose index has been dropped reads the log until it reaches the buffer again. The buffer
too reads the log where it missed decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from streams.error_words import words_of
from streams.errors import Unavailable
from streams.gateway.events.event import LogEvent
from streams.gateway.events.position import Position
from streams.service.ledger_service import LedgerService
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
MAX_BUFFERED: Final = 1_000
"""Decisions that a stream may be behind before it has to read them from the log."""
SLICE: Final = 100
"""Decisions read from the log, or encoded, between two yields to the event loop: milliseconds."""
_REACHED_S: Final = 5.0


class ReplayBuffer:
    """The latest decisions. Use it only in the event loop that created it.

    Attributes:
        ended: no more decisions will come.
        next: decisions since the buffer began, which is the index of the next one.
    """

    def __init__(self, service: LedgerService, stopping: asyncio.Event) -> None:
        self._service = service
        # Subscribe before reading the log's end: otherwise a decision in between would be lost.
        self._coming = service.log.appended()
        self._buffered: list[LogEvent] = []
        self._position: Position | None = None
        self._moved = asyncio.Event()
        self.ended = False
        self.next = 0
        self._tasks = (
            asyncio.create_task(self._run(), name="events"),
            asyncio.create_task(self._end_at(stopping), name="events-end"),
        )

    @property
    def position(self) -> Position:
        """The position after the last decision."""
        if self._position is None or self.ended:
            raise Unavailable("this server cannot follow the log now: connect again")
        return self._position

    async def ready(self) -> None:
        """Wait until there is a position.

        Raises: Unavailable: there will be none.
        """
        while self._position is None and not self.ended:
            await self._moved.wait()
        _ = self.position

    async def reach(self, needed: Sequence[int]) -> None:
        """Wait until the buffer has reached a decision in each partition.

        Raises: Unavailable: it has not, after some seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REACHED_S):
                while any(map(int.__lt__, self.position.numbers, needed)):
                    await self._moved.wait()
        if any(map(int.__lt__, self.position.numbers, needed)):
            raise Unavailable("this server lags behind another one: connect again")

    def since(self, place: int) -> Sequence[LogEvent] | None:
        """Return a slice of the decisions from an index on, None if they have been dropped."""
        first = self.next - len(self._buffered)
        return None if place < first else self._buffered[place - first : place - first + SLICE]

    async def more(self, place: int, within: float) -> None:
        """Wait until there is a decision at an index, at most so many seconds."""
        if place == self.next and not self.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._moved.wait()

    def close(self) -> None:
        """Close the subscription and stop, without awaiting anything."""
        self._coming.close()
        self._end()
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        try:
            lasts = [
                await self._service.log.last(partition)
                for partition in range(self._service.partitions)
            ]
            self._position = Position.of(lasts)
            self._wake()
            async for appended in self._coming:
                await self._take(appended.partition, appended.first, appended.values)
        except Exception as error:  # streams end; clients reconnect with their positions
            _log.warning("events_interrupted", why=words_of(error))
        finally:
            self._coming.close()
            self._end()

    async def _take(self, partition: int, first: int, values: Sequence[bytes]) -> None:
        """Add consecutive decisions; first read any missing ones from the log."""
        while (missing := first - self.position.numbers[partition] - 1) > 0:
            known = self.position.numbers[partition]
            read = await self._service.log.read(partition, known + 1, min(missing, SLICE))
            if not read:
                raise Unavailable(f"partition {partition} has no decision {known + 1}")
            await self._add(partition, read)
        values = values[self.position.numbers[partition] + 1 - first :]
        for begin in range(0, len(values), SLICE):
            await self._add(partition, values[begin : begin + SLICE])

    async def _add(self, partition: int, values: Sequence[bytes]) -> None:
        for value in values:
            log_event = LogEvent(partition, value, self.position)
            self._buffered.append(log_event)
            self._position = log_event.after
            self.next += 1
        # Trim rarely: each trim moves the remaining list.
        if len(self._buffered) >= 2 * MAX_BUFFERED:
            del self._buffered[:-MAX_BUFFERED]
        self._wake()
        await asyncio.sleep(0)

    async def _end_at(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self._end()

    def _end(self) -> None:
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
