"""Reads a log for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from streams.errors import Unavailable
from streams.log.decision_log import DecisionLog
from streams.log.single_decisions import decisions_at

T = TypeVar("T")


class AsyncLog:
    """Reads a log in a thread of its own, one call after another. Any event loop may call it.

    Args:
        max_waiting: reads that may wait at a time; a further one is Unavailable.
    """

    def __init__(self, log: DecisionLog, *, max_waiting: int = 100) -> None:
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
