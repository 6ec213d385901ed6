"""The inputs of an embedded partition: many threads add bodies, the writer takes them."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

from accountant.records import Source
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import CheckedInput, Input
from streams.errors import Unavailable


class Waiter(Protocol):
    """A caller that waits for one decision."""

    def settle(
        self, offset: int | None, decided: EncodedDecision | None, error: Exception | None
    ) -> None:
        """Take the decision, or the error in its place. The queue calls this once."""
        ...


class ThreadWaiter:
    """A thread that waits for one decision."""

    __slots__ = ("_decided", "_error", "_settled", "offset")

    def __init__(self) -> None:
        self._settled = threading.Lock()
        self._settled.acquire()
        self._decided: EncodedDecision | None = None
        self._error: Exception | None = None
        self.offset: int | None = None

    def settle(
        self, offset: int | None, decided: EncodedDecision | None, error: Exception | None
    ) -> None:
        self.offset, self._decided, self._error = offset, decided, error
        self._settled.release()

    def wait(self, seconds: float) -> EncodedDecision | None:
        """Return the decision, None if the time is up before it.

        Raises: Unavailable: the outcome is unknown, or the ledger cannot be used.
        """
        # Nearly always the decision is there already: without a timeout, `acquire` then takes a
        # tenth of the time.
        settled = self._settled.acquire(blocking=False)
        if not settled and not self._settled.acquire(timeout=max(0.0, seconds)):
            return None
        if self._error is not None:
            raise self._error
        return self._decided


class LoopWaiter:
    """A coroutine that waits for one decision, in any event loop.

    Attributes:
        timer: ends the wait; `TurnBuffer.add` sets it.
    """

    __slots__ = ("future", "loop", "offset", "timer")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[EncodedDecision | None] = self.loop.create_future()
        self.offset: int | None = None
        self.timer: TurnTimer | None = None

    def settle(
        self, offset: int | None, decided: EncodedDecision | None, error: Exception | None
    ) -> None:
        self.offset = offset
        _call(self.loop, [(self, decided, error)])

    async def wait(self) -> EncodedDecision | None:
        """Return the decision, None if the time is up before it.

        Raises: Unavailable: the outcome is unknown, or the ledger cannot be used.
        """
        assert self.timer is not None
        try:
            return await self.future
        finally:
            self.timer.leave()

    def set(self, decided: EncodedDecision | None, error: Exception | None) -> None:
        """Settle the future; runs in its loop."""
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
            self.future.exception()  # without this asyncio warns where the caller stopped waiting
        else:
            self.future.set_result(decided)


class TurnTimer:
    """One timer for all waiters that wait equally long from one turn of their loop on.

    A timer for each of them would cost as much as its future. The last ones of a turn wait less
    than they ask for, by the time that the turn takes.
    """

    __slots__ = ("_handle", "_is_whole", "_waiters", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._waiters: list[LoopWaiter] = []
        self._waiting = 0
        self._is_whole = False
        self._handle = loop.call_later(seconds, self._expire)

    def add(self, waiter: LoopWaiter) -> None:
        """Have a waiter's wait end in time."""
        self._waiters.append(waiter)
        self._waiting += 1
        waiter.timer = self

    def leave(self) -> None:
        """Note that a waiter waits no more. The last one stops the timer."""
        self._waiting -= 1
        self._stop_if_unused()

    def end_turn(self) -> None:
        """Note that no waiter is added any more."""
        self._is_whole = True
        self._stop_if_unused()

    def _stop_if_unused(self) -> None:
        if self._is_whole and not self._waiting:
            self._handle.cancel()
            self._waiters.clear()

    def _expire(self) -> None:
        for waiter in self._waiters:
            waiter.set(None, None)


Settled = tuple[int | None, EncodedDecision] | Exception | None
"""A body's offset and decision, or the error in their place; None while it is undecided."""


class BatchWaiter:
    """A coroutine that waits for the decisions of many bodies, and is woken once for all of them.

    Attributes:
        found: what became of each body. Only the waiter's loop changes it.
    """

    def __init__(self, count: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.found: list[Settled] = [None] * count
        self._missing = count
        self._is_complete: asyncio.Future[None] = self.loop.create_future()

    def place(self, index: int) -> BatchPlace:
        """Return the waiter of the body at `index`."""
        return BatchPlace(self, index)

    async def wait(self, seconds: float) -> None:
        """Return once every body is decided or failed, or the time is up."""
        if self._missing:
            await asyncio.wait([self._is_complete], timeout=seconds)

    def set(self, index: int, found: Settled) -> None:
        """Store what became of one body; runs in the waiter's loop, once for each body."""
        self.found[index] = found
        self._missing -= 1
        if not self._missing:
            self._is_complete.set_result(None)


class BatchPlace:
    """The waiter of one body of a batch."""

    __slots__ = ("_batch", "_index", "loop", "offset")

    def __init__(self, batch: BatchWaiter, index: int) -> None:
        self._batch = batch
        self._index = index
        self.loop = batch.loop
        self.offset: int | None = None

    def settle(
        self, offset: int | None, decided: EncodedDecision | None, error: Exception | None
    ) -> None:
        self.offset = offset
        _call(self.loop, [(self, decided, error)])

    def set(self, decided: EncodedDecision | None, error: Exception | None) -> None:
        """Settle this body; runs in the waiter's loop."""
        if decided is not None:
            self._batch.set(self._index, (self.offset, decided))
        elif error is not None:
            self._batch.set(self._index, error)


_InLoop = tuple[LoopWaiter | BatchPlace, EncodedDecision | None, Exception | None]


def _call(loop: asyncio.AbstractEventLoop, settled: list[_InLoop]) -> None:
    def settle() -> None:
        for waiter, decided, error in settled:
            waiter.set(decided, error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed: no coroutine waits in it any more


class QueuedBody(NamedTuple):
    """A body as it was received.

    Attributes:
        received: its append time, in milliseconds since 1970.
        checked: as in `accountant.records.inputs.Input`.
    """

    source: Source
    body: bytes
    received: int
    waiter: Waiter
    checked: CheckedInput | None = None


class TurnBuffer:
    """Queues the bodies that coroutines submit in one turn of their event loop, all at once.

    The writer then wakes once for them and commits them together. Its wake-up for each body would
    cost more than deciding it.

    Args:
        submit_many: as `Writer.submit_many`.
    """

    def __init__(self, submit_many: Callable[[Sequence[QueuedBody]], list[Unavailable]]) -> None:
        self._submit_many = submit_many
        self._turn = threading.local()

    def add(self, entry: QueuedBody, waiter: LoopWaiter, wait: float) -> None:
        """Queue a body at the end of this turn of its waiter's loop; then settle a failed waiter.

        Call it in that loop.

        Args:
            wait: seconds after which the waiter waits no more.
        """
        loop, turn = waiter.loop, self._turn
        # A loop that was closed within its turn leaves its bodies behind, as it leaves its tasks.
        if getattr(turn, "loop", None) is not loop:
            turn.loop, turn.added, turn.timers = loop, [], {}
            loop.call_soon(self._end_turn, turn.added, turn.timers)
        timer = turn.timers.get(wait)
        if timer is None:
            timer = turn.timers[wait] = TurnTimer(loop, wait)
        timer.add(waiter)
        turn.added.append((entry, waiter))

    def _end_turn(
        self, added: list[tuple[QueuedBody, LoopWaiter]], timers: dict[float, TurnTimer]
    ) -> None:
        self._turn.loop = None
        for timer in timers.values():
            timer.end_turn()
        try:
            refused = self._submit_many([entry for entry, _ in added])
        except Unavailable as error:
            refused = [error] * len(added)
        for (_, waiter), why in zip(added[len(added) - len(refused) :], refused, strict=True):
            waiter.set(None, why)


class NextBatch:
    """The journal's request for at most `limit` entries, the first within `wait` seconds.

    Awaiting it suspends the processor; the writer resumes the processor with the entries.
    """

    __slots__ = ("limit", "wait")

    def __init__(self, limit: int, wait: float) -> None:
        self.limit = limit
        self.wait = wait

    def __await__(self) -> Generator[NextBatch, Sequence[QueuedBody], Sequence[QueuedBody]]:
        return (yield self)


class InputQueue:
    """Bodies waiting to be decided, numbered as they are taken out.

    A crash loses the queued bodies, which is safe: no caller has an answer for them yet.

    Args:
        limit: how many may wait.
    """

    def __init__(self, limit: int) -> None:
        self._most = limit
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
            raise self._no_room()
        self._waiting.put(entry)

    def put_many(self, entries: Sequence[QueuedBody]) -> list[Unavailable]:
        """Queue bodies in their order; return an error for each last one without room."""
        room = max(0, self._most - self._waiting.qsize())
        for entry in entries[:room]:
            self._waiting.put(entry)
        return [self._no_room() for _ in entries[room:]]

    def _no_room(self) -> Unavailable:
        return Unavailable(f"{self._most} requests are waiting already: retry later")

    def wake(self) -> None:
        """Let `gather` return early."""
        self._waiting.put(None)

    @property
    def gathered(self) -> bool:
        """Whether gathered bodies wait for `next`."""
        return bool(self._gathered)

    def gather(self, limit: int, wait: float) -> None:
        """Gather waiting bodies; block this thread until one comes, `wait` seconds at most.

        Returns at once while gathered bodies are left from before.
        """
        if self._gathered:
            return
        try:
            entry = self._waiting.get(timeout=wait)
            while entry is not None:
                self._gathered.append(entry)
                if len(self._gathered) >= limit:
                    break
                entry = self._waiting.get_nowait()
        except queue.Empty:
            pass

    def next(self, limit: int) -> list[QueuedBody]:
        """Return the bodies gathered first, at most `limit`."""
        count = min(limit, len(self._gathered))
        return [self._gathered.popleft() for _ in range(count)]

    def seek(self, offsets: Mapping[Source, int]) -> None:
        """Number the next inputs from these offsets."""
        self._next = dict(offsets)

    async def take(self, limit: int, wait: float) -> list[Input]:
        """Return the next inputs, perhaps none; suspends until the writer resumes it."""
        records: list[Input] = []
        for source, body, received, waiter, checked in await NextBatch(limit, wait):
            offset = self._next[source]
            self._next[source] = offset + 1
            self._taken.append((offset, waiter))
            records.append(Input(source, offset, None, body, received, checked))
        return records

    def answer(self, decided: Sequence[tuple[Input, EncodedDecision]]) -> None:
        """Settle the callers of the inputs taken last with their decisions, in order."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_InLoop]] = {}
        for _, encoded in decided:
            offset, waiter = self._taken.popleft()
            if isinstance(waiter, LoopWaiter | BatchPlace):
                waiter.offset = offset
                by_loop.setdefault(waiter.loop, []).append((waiter, encoded, None))
            else:
                waiter.settle(offset, encoded, None)
        for loop, settled in by_loop.items():
            _call(loop, settled)

    def fail_taken(self, error: Exception) -> None:
        """Settle the callers of taken inputs, whose outcome is unknown, with an error."""
        while self._taken:
            offset, waiter = self._taken.popleft()
            waiter.settle(offset, None, error)

    def fail_waiting(self, error: Exception, *, gathered: bool = False) -> None:
        """Settle the callers of queued bodies, which are undecided, with an error.

        Args:
            gathered: whether to fail the gathered bodies, too; otherwise a later batch takes them.
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
