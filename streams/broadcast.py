"""Decisions to many readers, each with a bounded queue that loses its oldest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

from accountant.records import Decision

MOST_BEHIND: Final = 1000
"""Decisions that one reader may be behind before it loses the oldest."""


class Subscription(AsyncIterator[Decision]):
    """One reader's decisions; belongs to the event loop that it was made in.

    Attributes:
        lost: how many this reader lost for being slow.
    """

    def __init__(self, broadcast: Broadcast, most: int) -> None:
        self._broadcast = broadcast
        self._loop = asyncio.get_running_loop()
        self._behind: deque[Decision] = deque(maxlen=most)
        self._filled = asyncio.Event()
        self._closed = False
        self.lost = 0

    async def __anext__(self) -> Decision:
        while not self._behind:
            if self._closed:
                raise StopAsyncIteration
            self._filled.clear()
            await self._filled.wait()
        return self._behind.popleft()

    async def aclose(self) -> None:
        """Stop: what comes later is not kept."""
        self._broadcast.forget(self)
        self.end()

    def take(self, decisions: Sequence[Decision]) -> None:
        """Queue decisions, from any thread."""
        self._call(decisions)

    def end(self) -> None:
        """Let the reader come to its end, from any thread."""
        self._call(None)

    def _call(self, decisions: Sequence[Decision] | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue, decisions)
        except RuntimeError:
            self._broadcast.forget(self)  # its loop is closed

    def _queue(self, decisions: Sequence[Decision] | None) -> None:
        if decisions is None:
            self._closed = True
        else:
            room = (self._behind.maxlen or 0) - len(self._behind)
            self.lost += max(0, len(decisions) - room)
            self._behind.extend(decisions)
        self._filled.set()


class Broadcast:
    """The readers of one stream of decisions. `send` may be called from any thread."""

    def __init__(self, most_behind: int = MOST_BEHIND) -> None:
        self._most_behind = most_behind
        self._readers: tuple[Subscription, ...] = ()

    def subscribe(self) -> Subscription:
        """Return a subscription to what is sent from now on, in the running loop."""
        reader = Subscription(self, self._most_behind)
        self._readers = (*self._readers, reader)
        return reader

    def forget(self, reader: Subscription) -> None:
        """Send nothing more to a reader."""
        self._readers = tuple([kept for kept in self._readers if kept is not reader])

    @property
    def heard(self) -> bool:
        """Whether anybody reads."""
        return bool(self._readers)

    def send(self, decisions: Sequence[Decision]) -> None:
        """Send decisions to every reader."""
        for reader in self._readers:
            reader.take(decisions)

    def end(self) -> None:
        """Let every reader come to its end."""
        for reader in self._readers:
            reader.end()
