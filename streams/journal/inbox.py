"""The inputs of an embedded partition: a bounded queue in front of one writer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from accountant.inputs import Input
from accountant.records import Source
from streams.errors import Unavailable

MOST_WAITING = 10_000


class Inputs(Protocol):
    """Where an embedded journal reads: this inbox, or `handoff.Handoff`."""

    def seek(self, offsets: Mapping[Source, int]) -> None:
        """Number the next inputs from these offsets."""
        ...

    async def take(self, most: int, wait: float) -> list[Input]:
        """Return the next inputs, waiting at most `wait` seconds for the first."""
        ...


class Inbox:
    """Bodies waiting to be decided, numbered as they are taken out.

    Belongs to one event loop. What waits here was acknowledged to nobody, so losing it in
    a crash loses nothing; a refold keeps it.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._waiting: deque[tuple[Source, bytes, int, asyncio.Future[bytes]]] = deque()
        self._taken: dict[tuple[Source, int], asyncio.Future[bytes]] = {}
        self._next: dict[Source, int] = {"requests": 0, "admin": 0}
        self._filled = asyncio.Event()

    def put(self, source: Source, body: bytes, now: int) -> asyncio.Future[bytes]:
        """Queue a body received at `now`; the future gets the bytes of its decision.

        Raises: Unavailable: too many are waiting.
        """
        if len(self._waiting) >= self._most:
            raise Unavailable(f"{self._most} requests are waiting already: retry later")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((source, body, now, answer))
        self._filled.set()
        return answer

    def seek(self, offsets: Mapping[Source, int]) -> None:
        """Number the next inputs from these offsets."""
        self._next = dict(offsets)

    async def take(self, most: int, wait: float) -> list[Input]:
        """Return the next inputs, waiting at most `wait` seconds for the first."""
        if not self._waiting:
            self._filled.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._filled.wait()
            except TimeoutError:
                return []
        records: list[Input] = []
        while self._waiting and len(records) < most:
            source, body, now, answer = self._waiting.popleft()
            offset = self._next[source]
            self._next[source] = offset + 1
            self._taken[source, offset] = answer
            records.append(Input(source, offset, None, body, now))
        return records

    def answer(self, source: Source, offset: int, decision: bytes) -> None:
        """Tell whoever waits that an input was decided and committed."""
        answer = self._taken.pop((source, offset), None)
        if answer is not None and not answer.done():
            answer.set_result(decision)

    def fail(self, error: Exception, *, waiting: bool) -> None:
        """Tell those whose outcome is unknown, and with `waiting` those still queued."""
        answers = list(self._taken.values())
        self._taken.clear()
        if waiting:
            answers += [entry[3] for entry in self._waiting]
            self._waiting.clear()
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)
