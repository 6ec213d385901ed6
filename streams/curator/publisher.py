"""Stores answers, and so publishes them, at fixed ticks of the clock.

An answer is readable from the moment at which it is stored. All answers that are ready at a tick
are stored together, so a reader learns at which tick an answer was ready, and nothing finer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from streams.answers.store import AnswerStore, NewAnswer, StoredAnswer
from streams.clock import Clock
from streams.errors import JournalFault

_MAX_AT_ONCE: Final = 200  # answers of one transaction
_MAX_BYTES: Final = 8_000_000
"""Bytes of one transaction, unless one answer has more: a broker ends a long transaction."""
_Due = tuple[NewAnswer, asyncio.Future[StoredAnswer]]


class AnswerPublisher:
    """Stores answers at each tick; only its `run` writes them.

    Args:
        tick: seconds between two ticks, which are multiples of it on the wall clock.
    """

    def __init__(self, store: AnswerStore, *, tick: float, clock: Clock) -> None:
        self._store = store
        self._tick_ms = max(1, round(tick * 1000))
        self._clock = clock
        self._due: list[_Due] = []

    async def publish(self, answer: NewAnswer) -> StoredAnswer:
        """Store an answer at the next tick; return what is stored for its grant then.

        Nobody may see the answer before that, and afterwards only what is returned.
        """
        stored: asyncio.Future[StoredAnswer] = asyncio.get_running_loop().create_future()
        self._due.append((answer, stored))
        return await stored

    async def run(self) -> None:
        """Store at each tick, until it is cancelled."""
        while True:
            await asyncio.sleep((self._tick_ms - self._clock.now() % self._tick_ms) / 1000)
            # The order says nothing about the order in which the answers were ready.
            due, self._due = sorted(self._due, key=lambda each: each[0].grant), []
            by_partition = defaultdict[int, list[_Due]](list)
            for each in due:
                by_partition[each[0].partition].append(each)
            for entries in by_partition.values():
                for at_once in _transactions(entries):
                    await self._store_entries(at_once)

    async def _store_entries(self, entries: list[_Due]) -> None:
        try:
            stored = await self._store.put_first([answer for answer, _ in entries])
        except JournalFault:
            # They may be stored or not: the next tick tries again, and the first one wins.
            self._due += entries
            return
        for (_, waiting), each in zip(entries, stored, strict=True):
            if not waiting.done():
                waiting.set_result(each)


def _transactions(entries: list[_Due]) -> Iterator[list[_Due]]:
    """Yield the entries in their order, as many at a time as one transaction may have."""
    found, size = list[_Due](), 0
    for each in entries:
        length = len(each[0].value)
        if found and (len(found) == _MAX_AT_ONCE or size + length > _MAX_BYTES):
            yield found
            found, size = [], 0
        found.append(each)
        size += length
    if found:
        yield found
