"""What readers of a ledger on Kafka are told, by the rows and decisions that it follows."""

from __future__ import annotations

import asyncio
from pathlib import Path

from accountant.advice.preview import Preview
from accountant.partition.key_hash import partition_of
from accountant.records import Snapshot
from accountant.records.limits.rows import LevelRow
from accountant.records.members import Member, MemberRow
from accountant.records.previews import PreviewRequest
from accountant.records.state_rows import Row
from accountant.views.datasets import DatasetView
from accountant.views.follow import ViewFolder
from accountant.views.levels import AnalystBudget, LevelView
from accountant.views.members import MemberViews
from accountant.views.why import UsedSums
from streams.clock import Clock, SystemClock
from streams.errors import Unavailable
from streams.index import By, UsageAnswers, UsageRow
from streams.kafka.deployment import Deployment
from streams.kafka.following.limits import FollowedLimits
from streams.kafka.following.recent import Recent
from streams.kafka.following.tail import Tail
from streams.kafka.indexed.usage import KafkaUsage


class FollowedReads(UsageAnswers):
    """The reading half of `KafkaService`; `_tail` is the other half's.

    Attributes:
        usage_index: kept from its `start` on, or from the first question about usage.
    """

    _tail: Tail

    def __init__(self, deployment: Deployment, index: Path | None, clock: Clock | None) -> None:
        self._deployment = deployment
        self._clock = clock or SystemClock()
        self._recent = Recent(self._clock, deployment.window_ms)
        self._views: dict[str, DatasetView] = {}
        self.usage_index = KafkaUsage(deployment, index)
        self._views_of = ViewFolder(self._views, {})
        self._members = MemberViews()
        self._limits = FollowedLimits(self._members, self._clock, deployment.partitions)

    async def _take_row(self, _partition: int, row: Row) -> None:
        if isinstance(row, MemberRow):
            self._members.take_row(row)
        elif isinstance(row, LevelRow):
            self._limits.take_row(row)
        elif isinstance(row, Snapshot):
            self._views_of.take_row(row)

    async def find(self, dataset: str, who: str, request_id: str) -> bytes | None:
        return self._recent.by_request.get((dataset, who, request_id))

    async def datasets(self) -> list[DatasetView]:
        # Sorting very many takes 0.2 s, and would keep the loop from answering requests.
        return await asyncio.to_thread(_by_name, list(self._views.items()))

    async def dataset(self, name: str) -> DatasetView | None:
        return self._views.get(name)

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        view = await self.dataset(dataset)
        # To search for the largest claim that fits, or to count, may take milliseconds.
        if view is None:
            return None
        self._check_follows()
        return await asyncio.to_thread(self._limits.preview(view, asked))

    async def levels(self, dataset: str) -> list[LevelView]:
        view = self._views.get(dataset)
        self._check_follows()
        return [] if view is None else await asyncio.to_thread(self._limits.levels, view)

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        view = self._views.get(dataset)
        self._check_follows()
        return None if view is None else self._limits.budget(view, analyst)

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Return who used a dataset, by analyst, purpose, day or month.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        return await self.usage_index.rows(dataset, by) if dataset in self._views else []

    async def sums(self, dataset: str, *, since_day: str) -> UsedSums | None:
        return await self.usage_index.sums(dataset, since_day=since_day)

    async def decisions(self, dataset: str, *, after: int, most: int) -> list[bytes]:
        if dataset not in self._views:
            return []
        return await self.usage_index.decisions(dataset, after=after, most=most)

    @property
    def partitions(self) -> int:
        """As `LedgerService.partitions`."""
        return self._deployment.partitions

    async def read_log(self, partition: int, first: int, most: int) -> list[bytes]:
        """As `LedgerService.read_log`."""
        return await self.usage_index.log.read(partition, first, most)

    async def last_decision(self, partition: int) -> tuple[int, bytes]:
        """As `LedgerService.last_decision`."""
        return await self.usage_index.log.last(partition)

    def branch(self, partition: int) -> int | None:
        """As `LedgerService.branch`."""
        return self._tail.branches.get(partition)

    def newest_checkpoint(self, partition: int) -> None:
        """None: workers sign, and a gateway has no key."""

    def member(self, dataset: str, name: str) -> MemberRow | None:
        """As `LedgerService.member`."""
        self._check_follows()
        return self._members.get(dataset, name)

    def memberships(self, name: str) -> list[MemberRow]:
        """As `LedgerService.memberships`."""
        self._check_follows()
        return self._members.memberships(name)

    def decided_at(self, dataset: str) -> int:
        """As `LedgerService.decided_at`."""
        self._check_follows()
        return self._tail.decided_at(partition_of(dataset.encode(), self._deployment.partitions))

    def ordered_before(self) -> int | None:
        """As `Service.ordered_before`."""
        return self._limits.ordered_before()

    def _check_follows(self) -> None:
        """Check that changes of members reach this process: whoever was removed is let in else.

        Raises: Unavailable: they do not.
        """
        if self._tail.trouble:
            raise Unavailable(self._tail.trouble)

    async def members(self, dataset: str) -> list[Member]:
        self._check_follows()
        return [row.told for row in self._members.of(dataset)]


def _by_name(views: list[tuple[str, DatasetView]]) -> list[DatasetView]:
    return [view for _, view in sorted(views)]
