"""The decisions that this process has committed itself, so that its views need not read them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from accountant.partition import Partition
from accountant.records.encoded_decision import EncodedDecision
from streams.processing.observers import Committed

MOST_WAITING: Final = 20_000
"""Limit of waiting decisions of one partition, about a kilobyte each."""


class _LocalPartition:
    """One partition that this process decides.

    Attributes:
        state: as of its last commit.
        begun: number of the last decision before those of this process.
        last: number of the last committed decision.
        decided_at: of that decision.
        waiting: decisions that are committed and not handed over.
        reached: whether the reader has read all decisions before them, so that they may follow.
    """

    def __init__(self, partition: Partition) -> None:
        self.state = partition
        self.begun = partition.sequence
        self.last = partition.sequence
        self.decided_at = partition.decided_at
        self.waiting: deque[EncodedDecision] = deque()
        self.reached = False


class LocalDecisions:
    """An observer that hands over committed decisions, without a gap after those read from the log.

    At first the reader reads a partition's decisions from the log, like any other's. Once it
    reaches the decisions committed here, it may skip the partition and call `take` for the rest.
    When the partition is dropped, or too many decisions wait, the reader resumes.

    Args:
        most_waiting: limit of decisions of one partition that wait for `take`.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._partitions: dict[int, _LocalPartition] = {}
        self._read_on: dict[int, int] = {}
        self._filled = asyncio.Event()

    def replayed(self, partition: Partition, seconds: float) -> None:
        self._partitions[partition.genesis.partition] = _LocalPartition(partition)

    def committed(self, committed: Committed) -> None:
        partition, records, _ = committed
        local = self._partitions.get(partition.genesis.partition)
        if local is None:
            return  # the partition was dropped meanwhile
        local.last, local.decided_at = partition.sequence, partition.decided_at
        local.waiting.extend(encoded for _, encoded in records)
        if len(local.waiting) > self._most_waiting:
            if local.reached:
                local.reached = False
                self._read_on[partition.genesis.partition] = local.waiting[0].decided_at
            while len(local.waiting) > self._most_waiting:
                local.waiting.popleft()
        if local.reached:
            self._filled.set()

    def dropped(self, partition: int, error: BaseException | None) -> None:
        local = self._partitions.pop(partition, None)
        if local is not None and local.reached:
            first = local.waiting[0].decided_at if local.waiting else local.decided_at
            self._read_on[partition] = first

    def halted(self, partition: int, error: BaseException) -> None:
        self.dropped(partition, error)

    def state(self, partition: int) -> Partition | None:
        """Return the state of a partition that this process decides, None of any other."""
        local = self._partitions.get(partition)
        return None if local is None else local.state

    def begun(self, partition: int) -> int | None:
        """Return the number of the last decision on a partition before those of this process."""
        local = self._partitions.get(partition)
        return None if local is None else local.begun

    def reach(self, partition: int, sequence: int) -> bool:
        """Record how far a partition was read; return whether `take` has all later decisions."""
        local = self._partitions.get(partition)
        if local is None:
            return False
        while local.waiting and local.waiting[0].partition_sequence <= sequence:
            local.waiting.popleft()
        following = local.waiting[0].partition_sequence if local.waiting else local.last + 1
        local.reached = following <= sequence + 1
        if local.waiting and local.reached:
            self._filled.set()
        return local.reached

    def read_on(self) -> dict[int, int]:
        """Return the partitions to read from the log again, once each, with their start times.

        A start time, in milliseconds since 1970, is that of the first decision not handed over,
        or earlier.
        """
        since, self._read_on = self._read_on, {}
        return since

    async def wait(self, pause: float) -> None:
        """Return after a pause, once `take` has decisions."""
        await self._filled.wait()
        await asyncio.sleep(pause)

    def take(self) -> dict[int, Sequence[EncodedDecision]]:
        """Return the decisions committed since the last call, by partition, each in its order."""
        self._filled.clear()
        taken: dict[int, Sequence[EncodedDecision]] = {}
        for number, local in self._partitions.items():
            if local.reached and local.waiting:
                taken[number] = list(local.waiting)
                local.waiting.clear()
        return taken

    def give_back(self, taken: Mapping[int, Sequence[EncodedDecision]]) -> None:
        """Have the reader read decisions again that were taken but not used."""
        for number, decided in taken.items():
            local = self._partitions.get(number)
            if local is not None:
                local.reached = False
            since = self._read_on.get(number, decided[0].decided_at)
            self._read_on[number] = min(since, decided[0].decided_at)
