"""Older decisions of a ledger on Kafka, for the doors of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.indexed.logs_here import LogsHere

T = TypeVar("T")

_MOST_LOOKING: Final = 100


class LogLookup:
    """Reads decisions in a thread of its own, one call after another."""

    def __init__(self, deployment: Deployment) -> None:
        self._logs = LogsHere(deployment)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")
        self._looking = 0

    async def decisions(self, partition: int, sequences: Sequence[int]) -> list[bytes]:
        """Return single decisions; see `DecisionReader.decisions`."""
        return await self._look(lambda: self._logs.decisions(partition, sequences))

    async def read(self, partition: int, first: int, most: int) -> list[bytes]:
        """Return decisions from number `first` on; see `DecisionReader.read`."""
        return await self._look(lambda: self._logs.read(partition, first, most))

    async def last(self, partition: int) -> tuple[int, bytes]:
        """Return the last decision, with its number; see `DecisionReader.last`."""
        return await self._look(lambda: self._logs.last(partition))

    async def _look(self, look: Callable[[], T]) -> T:
        if self._looking >= _MOST_LOOKING:
            raise Unavailable(f"{_MOST_LOOKING} look for older decisions already: ask again")
        self._looking += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, look)
        except RuntimeError as error:  # the thread takes nothing any more
            raise Unavailable(f"closing: {error}") from error
        finally:
            self._looking -= 1

    def close(self) -> None:
        """Let go of the log, without waiting for those who look."""
        try:
            self._thread.submit(self._logs.close)
        finally:
            self._thread.shutdown(wait=False)
