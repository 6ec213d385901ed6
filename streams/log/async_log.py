"""Reads a log for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NoReturn, TypeVar

from streams.errors import Gone, Refused, Unavailable
from streams.log.appended import Appended, Appending
from streams.log.decision_log import DecisionLog
from streams.log.single_decisions import decisions_at, has_decision

T = TypeVar("T")

_PAGE: Final = 1_000  # decisions that a follower reads at a time


def refuse_to_follow() -> NoReturn:
    """Refuse: nobody announces decisions to this reader. Raises: Refused."""
    raise Refused("this reader of a log cannot follow it: use a server's address")


class AsyncLog:
    """Reads a log in a thread of its own, one call after another. Any event loop may call it.

    Args:
        appended: subscribes to decisions from now on; a reader that lags far loses the oldest.
        max_waiting: reads that may wait at a time; a further one is Unavailable.
    """

    def __init__(
        self,
        log: DecisionLog,
        appended: Callable[[], Appending] = refuse_to_follow,
        *,
        max_waiting: int = 100,
    ) -> None:
        self.appended = appended
        self._log = log
        self._max_waiting = max_waiting
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")
        self._room = threading.BoundedSemaphore(max_waiting)

    async def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        """Return decisions from number `first` on; see `DecisionLog.read`."""
        return await self._run(lambda: self._log.read(partition, first, limit))

    async def decisions(self, partition: int, numbers: Sequence[int]) -> list[bytes]:
        """Return single decisions; see `decisions_at`."""
        return await self._run(lambda: decisions_at(self._log, partition, numbers))

    async def last(self, partition: int) -> tuple[int, bytes]:
        """Return the last decision, with its number; see `DecisionLog.last`."""
        return await self._run(lambda: self._log.last(partition))

    async def has_decision(self, partition: int, number: int, head: str) -> bool:
        """Tell whether the log has a decision; see `has_decision`."""
        return await self._run(lambda: has_decision(self._log, partition, number, head))

    async def follow(
        self, begins: Mapping[int, int], *, reread_s: float
    ) -> AsyncGenerator[Appended, None]:
        """Yield decisions by partition, in order and without a gap, until the ledger is closed.

        Archived decisions are left out. Once the log of a partition was read to its end, an empty
        value follows. Close the iterator after use (`contextlib.aclosing`).

        Args:
            begins: number of the first decision to yield, of each partition that is wanted.
            reread_s: seconds after which the log is read although nothing was announced: a new
                leader on Kafka may not show yet what another reader has announced.
        Raises: as `read`.
        """
        places = dict(begins)
        coming = self.appended()  # before the log is read, so that there is no gap
        try:
            due = list(places)
            while True:
                for partition in due:
                    async for each in self._rest(partition, places):
                        yield each
                due = []
                try:
                    async with asyncio.timeout(reread_s):
                        each = await anext(coming)
                except TimeoutError:
                    due = list(places)
                    continue
                except StopAsyncIteration:
                    return
                place = places.get(each.partition)
                if place is None:
                    continue
                if each.first > place:  # this reader has lost some
                    async for missed in self._rest(each.partition, places):
                        yield missed
                    place = places[each.partition]
                if each.first <= place and (values := each.values[place - each.first :]):
                    places[each.partition] += len(values)
                    yield Appended(each.partition, place, values)
        finally:
            coming.close()

    async def _rest(self, partition: int, places: dict[int, int]) -> AsyncIterator[Appended]:
        """Yield what the log has from a place on, and move the place."""
        values: Sequence[bytes] | None = None
        while values is None or values:
            first = places[partition]
            try:
                values = await self.read(partition, first, _PAGE)
            except Gone as error:
                if error.first is None:
                    raise
                places[partition] = error.first
                continue
            places[partition] += len(values)
            yield Appended(partition, first, values)

    async def _run(self, read: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise Unavailable(
                f"{self._max_waiting} reads of older decisions are waiting already: ask again"
            )
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._call, read)
        except RuntimeError as error:  # the executor has been shut down
            raise Unavailable(f"closing: {error}") from error
        finally:
            self._room.release()

    def _call(self, read: Callable[[], T]) -> T:
        if self._closed:  # a read after `close` would open the log again
            raise Unavailable("closing: ask again")
        return read()

    def close(self) -> None:
        """Close the log, without waiting for a read in progress."""
        self._closed = True
        with contextlib.suppress(RuntimeError):  # it is closed
            self._thread.submit(self._log.close)
        self._thread.shutdown(wait=False)
