"""The decisions that this process has committed itself, for views that need not read them back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from accountant.partition import Partition
from accountant.records.encoded_decision import EncodedDecision
from streams.processing.observers import Committed

MOST_WAITING: Final = 20_000
"""Decisions of one partition, about a kilobyte each."""


class _Own:
    """One partition that is decided here.

    Attributes:
        last: number of the last decision committed.
        decided_at: of that decision.
        waiting: committed and not handed over.
        reached: all before them have been read, so they may be handed over.
    """

    def __init__(self, partition: Partition) -> None:
        self.last = partition.sequence
        self.decided_at = partition.decided_at
        self.waiting: deque[EncodedDecision] = deque()
        self.reached = False


class OwnDecisions:
    """An observer that hands over decisions without a gap to those that were read.

    At first a partition's decisions are read from the log, as those of any other. Once the
    reader has come to what was committed here, it may leave the partition out and take the
    rest from `take`. When the partition is dropped, or more waits than may, it reads on.

    Args:
        most_waiting: decisions of one partition that are kept until they are taken.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._owned: dict[int, _Own] = {}
        self._read_on: dict[int, int] = {}
        self._filled = asyncio.Event()
        self._crossed = asyncio.Event()

    def refolded(self, partition: Partition, seconds: float) -> None:
        self._owned[partition.genesis.partition] = _Own(partition)

    def committed(self, committed: Committed) -> None:
        partition, records, _ = committed
        own = self._owned.get(partition.genesis.partition)
        if own is None:
            return  # let go of meanwhile
        own.last, own.decided_at = partition.sequence, partition.decided_at
        decided = [encoded for _, encoded in records]
        own.waiting.extend(decided)
        if len(own.waiting) > self._most_waiting:
            if own.reached:
                own.reached = False
                self._read_on[partition.genesis.partition] = own.waiting[0].decided_at
            while len(own.waiting) > self._most_waiting:
                own.waiting.popleft()
        if own.reached:
            self._filled.set()
            if any(each.crossed for each in decided):
                self._crossed.set()

    def dropped(self, partition: int, error: BaseException | None) -> None:
        own = self._owned.pop(partition, None)
        if own is not None and own.reached:
            first = own.waiting[0].decided_at if own.waiting else own.decided_at
            self._read_on[partition] = first

    def halted(self, partition: int, error: BaseException) -> None:
        self.dropped(partition, error)

    def reach(self, partition: int, sequence: int) -> bool:
        """Note up to which decision a partition was read; tell whether `take` gives all others."""
        own = self._owned.get(partition)
        if own is None:
            return False
        while own.waiting and own.waiting[0].partition_sequence <= sequence:
            own.waiting.popleft()
        following = own.waiting[0].partition_sequence if own.waiting else own.last + 1
        own.reached = following <= sequence + 1
        if own.waiting and own.reached:
            self._filled.set()
        return own.reached

    def read_on(self) -> dict[int, int]:
        """Return the partitions to be read from the log again, and since when, once each.

        The times are milliseconds since 1970: of the first decision not handed over, or of one
        before it.
        """
        since, self._read_on = self._read_on, {}
        return since

    async def wait(self, pause: float) -> None:
        """Return once there is something to take: after a pause, unless a threshold is crossed."""
        await self._filled.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._crossed.wait()

    def take(self) -> dict[int, Sequence[EncodedDecision]]:
        """Return the decisions committed since the last call, by partition, each in its order."""
        self._filled.clear()
        self._crossed.clear()
        taken: dict[int, Sequence[EncodedDecision]] = {}
        for number, own in self._owned.items():
            if own.reached and own.waiting:
                taken[number] = list(own.waiting)
                own.waiting.clear()
        return taken

    def give_back(self, taken: Mapping[int, Sequence[EncodedDecision]]) -> None:
        """Have decisions that were taken but not used read from the log."""
        for number, decided in taken.items():
            own = self._owned.get(number)
            if own is not None:
                own.reached = False
            since = self._read_on.get(number, decided[0].decided_at)
            self._read_on[number] = min(since, decided[0].decided_at)
