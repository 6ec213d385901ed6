"""Decisions or alerts to many readers, each with a bounded queue that loses its oldest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_BEHIND: Final = 1000
"""Events that one reader may be behind before it loses the oldest."""


class Subscription(AsyncIterator[T], Generic[T]):
    """One reader's events; belongs to the event loop that it was made in.

    Attributes:
        lost: how many this reader lost for being slow.
    """

    def __init__(self, broadcast: Broadcast[T], most: int) -> None:
        self._broadcast = broadcast
        self._loop = asyncio.get_running_loop()
        self._behind: deque[T] = deque(maxlen=most)
        self._filled = asyncio.Event()
        self._closed = False
        self.lost = 0

    async def __anext__(self) -> T:
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

    def take(self, events: Sequence[T]) -> None:
        """Queue events, from any thread."""
        self._call(events)

    def end(self) -> None:
        """Let the reader come to its end, from any thread."""
        self._call(None)

    def _call(self, events: Sequence[T] | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue, events)
        except RuntimeError:
            self._broadcast.forget(self)  # its loop is closed

    def _queue(self, events: Sequence[T] | None) -> None:
        if events is None:
            self._closed = True
        else:
            room = (self._behind.maxlen or 0) - len(self._behind)
            self.lost += max(0, len(events) - room)
            self._behind.extend(events)
        self._filled.set()


class Broadcast(Generic[T]):
    """The readers of one stream of events. `send` may be called from any thread."""

    def __init__(self, most_behind: int = MOST_BEHIND) -> None:
        self._most_behind = most_behind
        self._readers: tuple[Subscription[T], ...] = ()

    def subscribe(self) -> Subscription[T]:
        """Return a subscription to what is sent from now on, in the running loop."""
        reader = Subscription(self, self._most_behind)
        self._readers = (*self._readers, reader)
        return reader

    def forget(self, reader: Subscription[T]) -> None:
        """Send nothing more to a reader."""
        self._readers = tuple([kept for kept in self._readers if kept is not reader])

    @property
    def heard(self) -> bool:
        """Whether anybody reads."""
        return bool(self._readers)

    def send(self, events: Sequence[T]) -> None:
        """Send events to every reader."""
        for reader in self._readers:
            reader.take(events)

    def end(self) -> None:
        """Let every reader come to its end."""
        for reader in self._readers:
            reader.end()
