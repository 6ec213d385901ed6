"""Decisions or alerts to many readers, each with a bounded queue that loses its oldest."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

MOST_BEHIND: Final = 1000
"""Events that one reader may be behind before it loses the oldest."""


class Subscription(AsyncIterator[T], Generic[T]):
    """One reader's events; belongs to the event loop that it was made in.

    Attributes:
        loop: that event loop.
        lost: how many this reader lost for being slow.
    """

    def __init__(self, broadcast: Broadcast[T], most: int) -> None:
        self._broadcast = broadcast
        self.loop = asyncio.get_running_loop()
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

    def waiting(self, most: int) -> list[T]:
        """Take at most so many of the events that are there; to be called in the loop."""
        return [self._behind.popleft() for _ in range(min(most, len(self._behind)))]

    def close(self) -> None:
        """Stop: what comes later is not kept. From any thread, and it awaits nothing."""
        self._broadcast.forget(self)
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self.end)

    async def aclose(self) -> None:
        """Do as `close` does."""
        self.close()

    def take(self, events: Sequence[T]) -> None:
        """Queue events; to be called in the loop."""
        room = (self._behind.maxlen or 0) - len(self._behind)
        self.lost += max(0, len(events) - room)
        self._behind.extend(events)
        self._filled.set()

    def end(self) -> None:
        """Let the reader come to its end; to be called in the loop."""
        self._closed = True
        self._filled.set()


Readers = tuple[Subscription[T], ...]


class Broadcast(Generic[T]):
    """The readers of one stream of events. Any thread may call it."""

    def __init__(self, most_behind: int = MOST_BEHIND) -> None:
        self._most_behind = most_behind
        # By loop: waking a loop takes a system call, so it is done once for all its readers.
        # Replaced, never changed: `send` goes through it while other threads come and leave.
        self._readers: Mapping[asyncio.AbstractEventLoop, Readers[T]] = {}
        self._replacing = threading.Lock()

    def subscribe(self) -> Subscription[T]:
        """Return a subscription to what is sent from now on, in the running loop."""
        reader = Subscription(self, self._most_behind)
        with self._replacing:
            there = self._readers.get(reader.loop, ())
            self._readers = {**self._readers, reader.loop: (*there, reader)}
        return reader

    def forget(self, reader: Subscription[T]) -> None:
        """Send nothing more to a reader."""
        with self._replacing:
            there = self._readers.get(reader.loop, ())
            kept = tuple([other for other in there if other is not reader])
            self._replace(reader.loop, kept)

    @property
    def heard(self) -> bool:
        """Whether anybody reads."""
        return bool(self._readers)

    def send(self, events: Sequence[T]) -> None:
        """Send events to every reader."""
        for loop, readers in self._readers.items():
            self._call(loop, _take, readers, events)

    def end(self) -> None:
        """Let every reader come to its end."""
        for loop, readers in self._readers.items():
            self._call(loop, _end, readers)

    def _call(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any
    ) -> None:
        try:
            loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # it is closed: nobody reads there any more
            with self._replacing:
                self._replace(loop, ())

    def _replace(self, loop: asyncio.AbstractEventLoop, readers: Readers[T]) -> None:
        others = {other: there for other, there in self._readers.items() if other is not loop}
        self._readers = {**others, loop: readers} if readers else others


def _take(readers: Readers[T], events: Sequence[T]) -> None:
    for reader in readers:
        reader.take(events)


def _end(readers: Readers[T]) -> None:
    for reader in readers:
        reader.end()
