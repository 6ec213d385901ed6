"""Read the rows of `state` in processes that follow a ledger without owning it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

import msgspec
from aiokafka import TopicPartition

from accountant.checksum import crc_of_row, text_of
from accountant.records import (
    DECODE_ERRORS,
    PartitionRow,
    decode_partition_row,
    partition_row_key,
)
from accountant.records.state_rows import Row, decode_row
from streams.errors import JournalFault
from streams.kafka.deployment import Deployment
from streams.kafka.wire.reader import StableReader
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds; the last one repeats

OnRow = Callable[[int, Row], Awaitable[None]]
"""Called with a partition and a row of one of its datasets, members or limits, perhaps twice."""

OnPartitionRow = Callable[[PartitionRow], None]
"""Called with a partition's own row, perhaps twice."""


class StateRowsFollower:
    """Hands over the rows of datasets, members and limits, and reads incomplete partitions again.

    An owner that finds `state` lost or wrong rewrites it in several transactions, the partition's
    row last. Meanwhile a reader gets only some of the rows. A dataset would stay unknown to it if
    its row is missing and the decisions it reads start after the dataset's opening.

    Attributes:
        branches: by partition, the number of its log's fork.
        decided: by partition, number and time of its last decision.
        known: the partitions of which every dataset was handed over, or comes with the decisions.
    """

    def __init__(
        self,
        deployment: Deployment,
        on_row: OnRow,
        on_partition_row: OnPartitionRow | None = None,
    ) -> None:
        self._on_partition_row = on_partition_row
        self._cluster = deployment.cluster
        self._on_row = on_row
        topic = deployment.topics.state
        self.branches: dict[int, int] = {}
        self.decided: dict[int, tuple[int, int]] = {}
        self.known = set[int]()
        self._decisions = deployment.topics.decisions
        self._missing = [TopicPartition(topic, i) for i in range(deployment.partitions)]

    async def read(self) -> None:
        """Hand over the rows of the partitions that are still incomplete.

        Raises: JournalFault.
        """
        missing, without_rows = list(self._missing), list[int]()
        async with StableReader(self._cluster, missing) as reader:
            for tp in missing:
                rows: dict[bytes, bytes] = {}
                async for record in reader.read(tp, reader.spans[tp].begin):
                    if record.value is None:
                        rows.pop(record.key, None)
                    else:
                        rows[record.key] = record.value
                if not rows and tp.partition not in self.known:
                    without_rows.append(tp.partition)
                await self.hand_over(tp, rows)
        if without_rows:
            await self._take_unused(without_rows)

    async def _take_unused(self, partitions: Iterable[int]) -> None:
        """Note which logs have their genesis alone: all that follows comes with the decisions.

        A worker writes the rows of a partition with its next decision.
        """
        logs = [TopicPartition(self._decisions, number) for number in partitions]
        try:
            async with StableReader(self._cluster, logs) as reader:
                for tp in logs:
                    begin = reader.spans[tp].begin
                    if begin == 0 and await _has_one_at_most(reader.read(tp, begin)):
                        self.known.add(tp.partition)
        except JournalFault as error:
            # The rows have been read, and that is enough for all but the access to sources.
            _log.info("decisions_not_read", why=str(error), then="retry")

    async def hand_over(self, tp: TopicPartition, rows: dict[bytes, bytes]) -> None:
        """Hand over a partition's rows, by their keys; skip only the rows that cannot be read."""
        own, partition = rows.pop(partition_row_key(tp.partition), None), None
        all_read = True
        # The partition's row first: the use of a period limit depends on its clock resets.
        if own is not None:
            try:
                partition = decode_partition_row(own)
            except (*DECODE_ERRORS, ValueError) as error:
                _unreadable(tp.partition, partition_row_key(tp.partition), error)
            else:
                self._take_partition_row(tp.partition, partition)
        for key, value in rows.items():
            try:
                await self._on_row(tp.partition, decode_row(value))
            except (*DECODE_ERRORS, ValueError) as error:  # ValueError: an amount is no number
                _unreadable(tp.partition, key, error)
                all_read = False
        if partition is not None and all_read and is_complete(partition, rows.values()):
            self._missing.remove(tp)
            self.known.add(tp.partition)

    def _take_partition_row(self, number: int, row: PartitionRow) -> None:
        self.take_branch(number, row.branch or 0)
        self.take_time(number, row.partition_sequence, row.decided_at)
        if self._on_partition_row is not None:
            self._on_partition_row(row)

    def take_branch(self, partition: int, branch: int) -> None:
        """Apply the number of a log's fork, from a row or a decision in any order."""
        self.branches[partition] = max(branch, self.branches.get(partition, 0))

    def take_time(self, partition: int, sequence: int, decided_at: int) -> None:
        """Apply the number and time of a decision, from a row or a decision in any order."""
        if sequence >= self.decided.get(partition, (-1, 0))[0]:
            self.decided[partition] = sequence, decided_at

    async def complete(self) -> None:
        """Read again at growing intervals, until every partition is complete.

        A partition without decisions has no rows, so it stays incomplete and is read again.
        """
        reads = 0
        while self._missing:
            await asyncio.sleep(_PAUSES[min(reads, len(_PAUSES) - 1)])
            reads += 1
            try:
                await self.read()
            except JournalFault as error:
                _log.info("state_not_read", why=str(error), then="retry")
            except Exception:
                _log.exception("state_not_read")


def _unreadable(partition: int, key: bytes, error: Exception) -> None:
    # The partition's next owner rewrites such rows from the log.
    row = key[:200].decode(errors="replace")
    _log.warning("state_row_unreadable", partition=partition, row=row, why=str(error))


async def _has_one_at_most(records: AsyncIterator[object]) -> bool:
    number = 0
    async for _ in records:
        number += 1
        if number > 1:
            return False
    return True


def is_complete(partition: PartitionRow, rows: Iterable[bytes]) -> bool:
    """Return whether these are all the rows that the partition's row counts."""
    sums = [crc_of_row(row) for row in rows]
    # Earlier versions wrote the partition's row without a checksum.
    checksum = text_of(sum(sums), partition.clock_resets)
    same = partition.checksum in (msgspec.UNSET, checksum)
    return same and partition.rows == len(sums)
