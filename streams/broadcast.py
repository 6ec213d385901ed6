"""Decisions or alerts to many readers, each with a bounded queue that loses its oldest."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar
from weakref import ref

T = TypeVar("T")

MOST_BEHIND: Final = 1000
"""Events that one reader may be behind before it loses the oldest."""


class Subscription(AsyncIterator[T], Generic[T]):
    """One reader's events; belongs to the event loop that it was made in.

    It lasts until it is closed, or nobody holds it any more.

    Attributes:
        loop: that event loop.
        place: where its broadcast finds it.
    """

    def __init__(self, most: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.place = _Place(self)
        self._behind: deque[T] = deque(maxlen=most)
        self._filled = asyncio.Event()
        self._closed = False

    @property
    def open(self) -> bool:
        """Whether anybody can still read."""
        return not self._closed and not self.loop.is_closed()

    async def __anext__(self) -> T:
        while not self._behind:
            if self._closed:
                raise StopAsyncIteration
            self._filled.clear()
            self.place.waiting = self
            try:
                await self._filled.wait()
            finally:
                self.place.waiting = None
        return self._behind.popleft()

    def ready(self) -> T | None:
        """Take the next event, None if it has not come yet; to be called in the loop."""
        return self._behind.popleft() if self._behind else None

    def close(self) -> None:
        """Stop: what comes later is not kept. From any thread, and it awaits nothing.

        It takes no lock: the garbage collector may close what was left in the middle, in a
        thread that holds any.
        """
        self._closed = True
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self.end)

    async def aclose(self) -> None:
        """Do as `close` does."""
        self.close()

    def take(self, events: Sequence[T]) -> None:
        """Queue events; to be called in the loop."""
        self._behind.extend(events)
        self._filled.set()

    def end(self) -> None:
        """Let the reader come to its end; to be called in the loop."""
        self._closed = True
        self._filled.set()


class _Place(Generic[T]):
    """How a broadcast holds a reader: weakly, but for as long as it waits.

    Who stops in the middle of an iteration closes nothing, and is gone. A task that waits may be
    held by nobody else.
    """

    __slots__ = ("_reader", "waiting")

    def __init__(self, reader: Subscription[T]) -> None:
        self._reader = ref(reader)
        self.waiting: Subscription[T] | None = None

    @property
    def reader(self) -> Subscription[T] | None:
        """The reader, None if it does not read any more."""
        reader = self._reader()
        return reader if reader is not None and reader.open else None


Readers = tuple[Subscription[T], ...]
Places = tuple[_Place[T], ...]


class Broadcast(Generic[T]):
    """The readers of one stream of events. Any thread may call it."""

    def __init__(self, most_behind: int = MOST_BEHIND) -> None:
        self._most_behind = most_behind
        # By loop: waking a loop takes a system call, so it is done once for all its readers.
        # Replaced, never changed: `send` goes through it while other threads come.
        self._readers: Mapping[asyncio.AbstractEventLoop, Places[T]] = {}
        self._replacing = threading.Lock()

    def subscribe(self) -> Subscription[T]:
        """Return a subscription to what is sent from now on, in the running loop."""
        reader = Subscription[T](self._most_behind)
        with self._replacing:
            others = _without_gone(self._readers)
            there = others.get(reader.loop, ())
            self._readers = {**others, reader.loop: (*there, reader.place)}
        return reader

    @property
    def heard(self) -> bool:
        """Whether anybody reads."""
        return any(place.reader for places in self._readers.values() for place in places)

    def send(self, events: Sequence[T]) -> None:
        """Send events to every reader."""
        gone = False
        for loop, places in self._readers.items():
            readers = _readers_at(places)
            gone = gone or len(readers) < len(places)
            _call(loop, _take, readers, events)
        if gone:
            with self._replacing:
                self._readers = _without_gone(self._readers)

    def end(self) -> None:
        """Let every reader come to its end."""
        for loop, places in self._readers.items():
            _call(loop, _end, _readers_at(places))


def _readers_at(places: Places[T]) -> Readers[T]:
    return tuple([reader for place in places if (reader := place.reader) is not None])


def _without_gone(
    readers: Mapping[asyncio.AbstractEventLoop, Places[T]],
) -> dict[asyncio.AbstractEventLoop, Places[T]]:
    kept = {loop: tuple([p for p in places if p.reader]) for loop, places in readers.items()}
    return {loop: places for loop, places in kept.items() if places}


def _call(
    loop: asyncio.AbstractEventLoop,
    function: Callable[..., None],
    readers: Readers[T],
    *arguments: Any,
) -> None:
    if readers:
        with contextlib.suppress(RuntimeError):  # it is closed: nobody reads there any more
            loop.call_soon_threadsafe(function, readers, *arguments)


def _take(readers: Readers[T], events: Sequence[T]) -> None:
    for reader in readers:
        reader.take(events)


def _end(readers: Readers[T]) -> None:
    for reader in readers:
        reader.end()
