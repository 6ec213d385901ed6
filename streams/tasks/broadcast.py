"""Sends decisions or alerts to many readers, each with a bounded queue that drops the oldest."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

MAX_BEHIND: Final = 1000
"""Events that one reader may lag behind before it loses the oldest."""


class Subscription(AsyncIterator[T], Generic[T]):
    """One reader's events. Use it only in the event loop that created it.

    It ends when it is closed, or when nothing references it any more.

    Attributes:
        loop: that event loop.
        ref: the broadcast's weak reference to it.
    """

    def __init__(self, limit: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.ref = _ReaderRef(self)
        self._queue: deque[T] = deque(maxlen=limit)
        self._filled = asyncio.Event()
        self._closed = False

    @property
    def open(self) -> bool:
        """Whether it can still be read."""
        return not self._closed and not self.loop.is_closed()

    async def __anext__(self) -> T:
        while not self._queue:
            if self._closed:
                raise StopAsyncIteration
            self._filled.clear()
            self.ref.waiting = self
            try:
                await self._filled.wait()
            finally:
                self.ref.waiting = None
        return self._queue.popleft()

    def ready(self) -> T | None:
        """Return the next event, None if there is none yet. Call it in the loop."""
        return self._queue.popleft() if self._queue else None

    def close(self) -> None:
        """Stop; later events are dropped. Any thread may call it; it does not wait.

        It takes no lock: the garbage collector may close an abandoned iteration in a thread that
        already holds one.
        """
        self._closed = True
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self.end)

    async def aclose(self) -> None:
        """As `close`."""
        self.close()

    def take(self, events: Sequence[T]) -> None:
        """Queue events. Call it in the loop."""
        self._queue.extend(events)
        self._filled.set()

    def end(self) -> None:
        """End the iteration. Call it in the loop."""
        self._closed = True
        self._filled.set()


class _ReaderRef(Generic[T]):
    """A broadcast's reference to a reader: weak, but strong while the reader waits.

    An abandoned iteration closes nothing, so the reference must be weak. A waiting task may be
    referenced by nothing else, so it must be strong meanwhile.
    """

    __slots__ = ("_reader", "waiting")

    def __init__(self, reader: Subscription[T]) -> None:
        self._reader = weakref.ref(reader)
        self.waiting: Subscription[T] | None = None

    @property
    def reader(self) -> Subscription[T] | None:
        """The reader, None if it has ended."""
        reader = self._reader()
        return reader if reader is not None and reader.open else None


Readers = tuple[Subscription[T], ...]
ReaderRefs = tuple[_ReaderRef[T], ...]


class Broadcast(Generic[T]):
    """The readers of one stream of events. Any thread may call it."""

    def __init__(self, max_behind: int = MAX_BEHIND) -> None:
        self._max_behind = max_behind
        # By loop: waking a loop takes a system call, so one call serves all its readers.
        # Replaced, never mutated: `send` iterates over it while other threads subscribe.
        self._readers: Mapping[asyncio.AbstractEventLoop, ReaderRefs[T]] = {}
        self._replacing = threading.Lock()

    def subscribe(self) -> Subscription[T]:
        """Subscribe the running event loop to events from now on."""
        reader = Subscription[T](self._max_behind)
        with self._replacing:
            others = _live_refs(self._readers)
            there = others.get(reader.loop, ())
            self._readers = {**others, reader.loop: (*there, reader.ref)}
        return reader

    @property
    def has_readers(self) -> bool:
        """Whether there is any reader."""
        return any(each.reader for refs in self._readers.values() for each in refs)

    def send(self, events: Sequence[T]) -> None:
        """Send events to every reader."""
        gone = False
        for loop, refs in self._readers.items():
            readers = _live_readers(refs)
            gone = gone or len(readers) < len(refs)
            _call(loop, _take, readers, events)
        if gone:
            with self._replacing:
                self._readers = _live_refs(self._readers)

    def end(self) -> None:
        """End every reader's iteration."""
        for loop, refs in self._readers.items():
            _call(loop, _end, _live_readers(refs))


def _live_readers(refs: ReaderRefs[T]) -> Readers[T]:
    return tuple([reader for each in refs if (reader := each.reader) is not None])


def _live_refs(
    readers: Mapping[asyncio.AbstractEventLoop, ReaderRefs[T]],
) -> dict[asyncio.AbstractEventLoop, ReaderRefs[T]]:
    live = {loop: tuple([p for p in refs if p.reader]) for loop, refs in readers.items()}
    return {loop: refs for loop, refs in live.items() if refs}


def _call(
    loop: asyncio.AbstractEventLoop,
    function: Callable[..., None],
    readers: Readers[T],
    *arguments: Any,
) -> None:
    if readers:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so it has no readers
            loop.call_soon_threadsafe(function, readers, *arguments)


def _take(readers: Readers[T], events: Sequence[T]) -> None:
    for reader in readers:
        reader.take(events)


def _end(readers: Readers[T]) -> None:
    for reader in readers:
        reader.end()
