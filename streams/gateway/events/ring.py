"""What happened last, once for all streams of a door, each with its own place in it.

A stream that is too far behind finds its place gone, and reads the log from its position until it
is here again. So does the ring itself where decisions did not reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from streams.errors import Unavailable
from streams.gateway.events.happened import Happened
from streams.gateway.events.position import Position
from streams.logs import get_logger
from streams.service import LedgerService

_log = get_logger(__name__)
MOST_KEPT: Final = 1_000
"""Decisions that a stream may be behind before it has to read them from the log."""
SLICE: Final = 100
"""Decisions that are read from the log, or made into events, at a time: some milliseconds."""
_REACHED_S: Final = 5.0


class Ring:
    """The last decisions. Belongs to the event loop that it is made in.

    Attributes:
        ended: nothing more comes.
        next: how many there have been since the ring began.
    """

    def __init__(self, service: LedgerService, stopping: asyncio.Event) -> None:
        self._service = service
        # Subscribed before the log's ends are looked at: nothing falls between.
        self._coming = service.appended()
        self._kept: list[Happened] = []
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
            raise Unavailable("the log cannot be followed: connect again")
        return self._position

    async def ready(self) -> None:
        """Return once there is a position.

        Raises: Unavailable: there will be none.
        """
        while self._position is None and not self.ended:
            await self._moved.wait()
        _ = self.position

    async def reach(self, needed: Sequence[int]) -> None:
        """Return once the position is at or behind some decisions, one of each partition.

        Raises: Unavailable: it is not yet, after some seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REACHED_S):
                while any(map(int.__lt__, self.position.numbers, needed)):
                    await self._moved.wait()
        if any(map(int.__lt__, self.position.numbers, needed)):
            raise Unavailable("this door is behind another one: connect again")

    def since(self, place: int) -> Sequence[Happened] | None:
        """Return some of what came at a place or after it; None where that is not kept here."""
        first = self.next - len(self._kept)
        return None if place < first else self._kept[place - first : place - first + SLICE]

    async def more(self, place: int, within: float) -> None:
        """Return once something has come at a place, or after so many seconds."""
        if place == self.next and not self.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._moved.wait()

    def close(self) -> None:
        """Let go of everything, awaiting nothing."""
        self._coming.close()
        self._end()
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        try:
            lasts = [
                await self._service.last_decision(partition)
                for partition in range(self._service.partitions)
            ]
            self._position = Position.of(lasts)
            self._wake()
            async for appended in self._coming:
                await self._take(appended.partition, appended.first, appended.values)
        except Exception as error:  # streams end: clients go on from their positions
            _log.warning("events_interrupted", why=f"{type(error).__name__}: {error}")
        finally:
            self._coming.close()
            self._end()

    async def _take(self, partition: int, first: int, values: Sequence[bytes]) -> None:
        """Take in decisions that follow one another; what came before is read or known."""
        while (missing := first - self.position.numbers[partition] - 1) > 0:
            known = self.position.numbers[partition]
            read = await self._service.read_log(partition, known + 1, min(missing, SLICE))
            if not read:
                raise Unavailable(f"partition {partition} has no decision {known + 1}")
            await self._add(partition, read)
        values = values[self.position.numbers[partition] + 1 - first :]
        for begin in range(0, len(values), SLICE):
            await self._add(partition, values[begin : begin + SLICE])

    async def _add(self, partition: int, values: Sequence[bytes]) -> None:
        for value in values:
            happened = await Happened.of(self._service, partition, value, self.position)
            self._kept.append(happened)
            self._position = happened.after
            self.next += 1
        if len(self._kept) >= 2 * MOST_KEPT:  # seldom, for it moves what is left
            del self._kept[:-MOST_KEPT]
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
