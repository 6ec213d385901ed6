"""The inputs of an embedded partition, handed from many threads to the one that writes.

The writer's thread has nothing to do but to decide, so it blocks here, and a waiting caller
blocks on a lock: two thread switches a request and no event loop between them.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from accountant.inputs import Input
from accountant.records import Source
from streams.errors import Unavailable


class Ticket(Protocol):
    """Someone who waits for one decision."""

    def settle(self, offset: int, decision: bytes | None, error: Exception | None) -> None:
        """Take the decision's bytes, or why there are none. Called once at most."""
        ...


class BlockingTicket:
    """A thread that waits."""

    __slots__ = ("_decided", "_decision", "_error", "offset")

    def __init__(self) -> None:
        self._decided = threading.Lock()
        self._decided.acquire()
        self._decision: bytes | None = None
        self._error: Exception | None = None
        self.offset: int | None = None

    def settle(self, offset: int, decision: bytes | None, error: Exception | None) -> None:
        self.offset, self._decision, self._error = offset, decision, error
        self._decided.release()

    def wait(self, seconds: float) -> bytes | None:
        """Return the decision's bytes, None if there is none in time.

        Raises: Unavailable: the outcome is unknown, or the ledger cannot be used.
        """
        if not self._decided.acquire(timeout=max(0.0, seconds)):
            return None
        if self._error is not None:
            raise self._error
        return self._decision


class LoopTicket:
    """A coroutine that waits, in whatever event loop it runs."""

    __slots__ = ("future", "loop", "offset")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[bytes] = self.loop.create_future()
        self.offset: int | None = None

    def settle(self, offset: int, decision: bytes | None, error: Exception | None) -> None:
        self.offset = offset
        _call(self.loop, [(self, decision, error)])

    def set(self, decision: bytes | None, error: Exception | None) -> None:
        """Settle within the loop."""
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
            self.future.exception()  # whoever stopped waiting needs no warning
        else:
            self.future.set_result(decision or b"")


_Settled = tuple[LoopTicket, bytes | None, Exception | None]


def _call(loop: asyncio.AbstractEventLoop, settled: list[_Settled]) -> None:
    def settle() -> None:
        for ticket, decision, error in settled:
            ticket.set(decision, error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed, and nobody waits in it any more


class Handoff:
    """Bodies waiting to be decided, numbered as they are taken out.

    What waits here was acknowledged to nobody, so losing it in a crash loses nothing.

    Args:
        most: how many may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: queue.SimpleQueue[tuple[Source, bytes, int, Ticket] | None]
        self._waiting = queue.SimpleQueue()
        self._taken: deque[tuple[Source, int, Ticket]] = deque()
        self._next: dict[Source, int] = {"requests": 0, "admin": 0}
        self._stopped = False

    def __len__(self) -> int:
        return self._waiting.qsize()

    def put(self, source: Source, body: bytes, now: int, ticket: Ticket) -> None:
        """Queue a body received at `now`, milliseconds since 1970.

        Raises: Unavailable: too many are waiting.
        """
        if self._waiting.qsize() >= self._most:
            raise Unavailable(f"{self._most} requests are waiting already: retry later")
        self._waiting.put((source, body, now, ticket))

    def seek(self, offsets: Mapping[Source, int]) -> None:
        """Number the next inputs from these offsets."""
        self._next = dict(offsets)

    async def take(self, most: int, wait: float) -> list[Input]:
        """Return the next inputs, blocking the thread at most `wait` seconds for the first.

        Raises: asyncio.CancelledError: `stop` was called.
        """
        waiting, records = self._waiting, list[Input]()
        try:
            entry = waiting.get(timeout=wait)
            while True:
                if entry is None or self._stopped:
                    raise asyncio.CancelledError
                source, body, now, ticket = entry
                offset = self._next[source]
                self._next[source] = offset + 1
                self._taken.append((source, offset, ticket))
                records.append(Input(source, offset, None, body, now))
                if len(records) == most:
                    return records
                entry = waiting.get_nowait()
        except queue.Empty:
            return records

    def answer(self, decisions: Sequence[bytes]) -> None:
        """Tell whoever waits for the inputs taken last that they were decided, in order."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Settled]] = {}
        for decision in decisions:
            _, offset, ticket = self._taken.popleft()
            if isinstance(ticket, LoopTicket):
                ticket.offset = offset
                by_loop.setdefault(ticket.loop, []).append((ticket, decision, None))
            else:
                ticket.settle(offset, decision, None)
        for loop, settled in by_loop.items():
            _call(loop, settled)

    def fail(self, error: Exception, *, waiting: bool) -> None:
        """Tell those whose outcome is unknown, and with `waiting` those still queued."""
        while self._taken:
            _, offset, ticket = self._taken.popleft()
            ticket.settle(offset, None, error)
        while waiting:
            try:
                entry = self._waiting.get_nowait()
            except queue.Empty:
                return
            if entry is not None:
                entry[3].settle(-1, None, error)

    def stop(self) -> None:
        """End the writer's waiting, now and from now on."""
        self._stopped = True
        self._waiting.put(None)
