"""The inputs of an embedded partition: bodies from many threads, for whoever writes."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

from accountant.records import Source
from accountant.records.decided import Encoded
from accountant.records.inputs import Checked, Input
from streams.errors import Unavailable


class Waiter(Protocol):
    """Someone who waits for one decision."""

    def settle(self, offset: int | None, decided: Encoded | None, error: Exception | None) -> None:
        """Take the decision, or why there is none. Called once."""
        ...


class ThreadWaiter:
    """A thread that waits."""

    __slots__ = ("_decided", "_error", "_settled", "offset")

    def __init__(self) -> None:
        self._settled = threading.Lock()
        self._settled.acquire()
        self._decided: Encoded | None = None
        self._error: Exception | None = None
        self.offset: int | None = None

    def settle(self, offset: int | None, decided: Encoded | None, error: Exception | None) -> None:
        self.offset, self._decided, self._error = offset, decided, error
        self._settled.release()

    def wait(self, seconds: float) -> Encoded | None:
        """Return the decision, None if there is none in time.

        Raises: Unavailable: the outcome is unknown, or the ledger cannot be used.
        """
        # Without a timeout first: settled already, as nearly always, it takes a tenth of the time.
        settled = self._settled.acquire(blocking=False)
        if not settled and not self._settled.acquire(timeout=max(0.0, seconds)):
            return None
        if self._error is not None:
            raise self._error
        return self._decided


class LoopWaiter:
    """A coroutine that waits, in whatever event loop it runs."""

    __slots__ = ("future", "loop", "offset")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[bytes] = self.loop.create_future()
        self.offset: int | None = None

    def settle(self, offset: int | None, decided: Encoded | None, error: Exception | None) -> None:
        self.offset = offset
        _call(self.loop, [(self, decided, error)])

    def set(self, decided: Encoded | None, error: Exception | None) -> None:
        """Settle within the loop."""
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
            self.future.exception()  # whoever stopped waiting needs no warning
        else:
            self.future.set_result(b"" if decided is None else decided.value)


_Settled = tuple[LoopWaiter, Encoded | None, Exception | None]


def _call(loop: asyncio.AbstractEventLoop, settled: list[_Settled]) -> None:
    def settle() -> None:
        for waiter, decided, error in settled:
            waiter.set(decided, error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed, and nobody waits in it any more


class QueuedBody(NamedTuple):
    """A body as it was received.

    Attributes:
        received: milliseconds since 1970, its append time.
        checked: as in `accountant.records.inputs.Input`.
    """

    source: Source
    body: bytes
    received: int
    waiter: Waiter
    checked: Checked | None = None


class NextBatch:
    """What the journal waits for: at most `most` entries, the first within `wait` seconds.

    Awaiting it suspends the processor; whoever runs it on sends it the entries.
    """

    __slots__ = ("most", "wait")

    def __init__(self, most: int, wait: float) -> None:
        self.most = most
        self.wait = wait

    def __await__(self) -> Generator[NextBatch, Sequence[QueuedBody], Sequence[QueuedBody]]:
        return (yield self)


class InputQueue:
    """Bodies waiting to be decided, numbered as they are taken out.

    What waits here was acknowledged to nobody, so losing it in a crash loses nothing.

    Args:
        most: how many may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: queue.SimpleQueue[QueuedBody | None] = queue.SimpleQueue()
        self._gathered: deque[QueuedBody] = deque()
        self._taken: deque[tuple[int, Waiter]] = deque()
        self._next: dict[Source, int] = {"requests": 0, "admin": 0}

    def __len__(self) -> int:
        return self._waiting.qsize()

    def put(self, entry: QueuedBody) -> None:
        """Queue a body.

        Raises: Unavailable: too many are waiting.
        """
        if self._waiting.qsize() >= self._most:
            raise Unavailable(f"{self._most} requests are waiting already: retry later")
        self._waiting.put(entry)

    def wake(self) -> None:
        """Let `gather` return early."""
        self._waiting.put(None)

    @property
    def gathered(self) -> bool:
        """Whether some bodies were gathered and not taken yet."""
        return bool(self._gathered)

    def gather(self, batch: NextBatch) -> None:
        """Gather what waits, blocking this thread until there is something or time is up.

        Where something is gathered already, this returns at once.
        """
        if self._gathered:
            return
        try:
            entry = self._waiting.get(timeout=batch.wait)
            while entry is not None:
                self._gathered.append(entry)
                if len(self._gathered) >= batch.most:
                    break
                entry = self._waiting.get_nowait()
        except queue.Empty:
            pass

    def next(self, most: int) -> list[QueuedBody]:
        """Return the bodies gathered first, at most `most`."""
        count = min(most, len(self._gathered))
        return [self._gathered.popleft() for _ in range(count)]

    def seek(self, offsets: Mapping[Source, int]) -> None:
        """Number the next inputs from these offsets."""
        self._next = dict(offsets)

    async def take(self, most: int, wait: float) -> list[Input]:
        """Return the next inputs; suspends until the writer brings some, or none."""
        records: list[Input] = []
        for source, body, received, waiter, checked in await NextBatch(most, wait):
            offset = self._next[source]
            self._next[source] = offset + 1
            self._taken.append((offset, waiter))
            records.append(Input(source, offset, None, body, received, checked))
        return records

    def answer(self, decided: Sequence[tuple[Input, Encoded]]) -> None:
        """Tell whoever waits for the inputs taken last that they were decided, in order."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Settled]] = {}
        for _, encoded in decided:
            offset, waiter = self._taken.popleft()
            if isinstance(waiter, LoopWaiter):
                waiter.offset = offset
                by_loop.setdefault(waiter.loop, []).append((waiter, encoded, None))
            else:
                waiter.settle(offset, encoded, None)
        for loop, settled in by_loop.items():
            _call(loop, settled)

    def fail_taken(self, error: Exception) -> None:
        """Tell those whose outcome is unknown."""
        while self._taken:
            offset, waiter = self._taken.popleft()
            waiter.settle(offset, None, error)

    def fail_waiting(self, error: Exception, *, gathered: bool = False) -> None:
        """Tell those still queued, which were not decided.

        Args:
            gathered: also those gathered already, which a later batch would take else.
        """
        while gathered and self._gathered:
            self._gathered.popleft().waiter.settle(None, None, error)
        while True:
            try:
                entry = self._waiting.get_nowait()
            except queue.Empty:
                return
            if entry is not None:
                entry.waiter.settle(None, None, error)
