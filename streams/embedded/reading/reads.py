"""What readers of a ledger's file are told, by the partition in memory and the log in the file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from accountant.advice.preview import Preview
from accountant.partition import Partition
from accountant.records.members import Member, MemberRow
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView
from accountant.views.levels import AnalystBudget, LevelView
from accountant.views.population import ordered_before
from accountant.views.why import UsedSums
from streams.clock import Clock
from streams.embedded.reading.decision_reader import DecisionPages, DecisionReader, LogSlices
from streams.embedded.reading.live_limits import LiveLimits
from streams.embedded.reading.live_views import LiveViews
from streams.index import By, UsageAnswers, UsageReader, UsageRow, index_path
from streams.metrics.live_ledgers import LiveLedgers
from streams.processing.observers import Lag
from streams.settings import Settings


class FileReads(UsageAnswers):
    """The reading half of `EmbeddedService`. Any thread and any event loop may call it.

    Args:
        held: returns the partition; raises Unavailable while there is none.
        waiting: returns how many inputs wait.
    """

    def __init__(
        self,
        path: Path,
        settings: Settings,
        clock: Clock,
        held: Callable[[], Partition],
        waiting: Callable[[], int],
    ) -> None:
        self._held, self._clock = held, clock
        self._reader = DecisionReader(path)
        self._usage = UsageReader(lambda _: LogSlices(path), index_path(path, settings))
        self._pages = DecisionPages(self._reader, self._usage)
        self.live_ledgers = LiveLedgers(
            clock,
            lags=lambda: [Lag("requests", 0, waiting())],
            analysts=settings.metrics_analysts,
            levels=settings.metrics_levels,
            index=self._usage,
        )
        self.views = LiveViews(self.live_ledgers)
        self._limits = LiveLimits(held, clock)

    async def datasets(self) -> list[DatasetView]:
        self._last()
        # With very many datasets this takes a quarter of a second, too long to block the loop.
        return list((await asyncio.to_thread(self.views.datasets)).values())

    async def dataset(self, name: str) -> DatasetView | None:
        self._last()
        return self.views.dataset(name)

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        view = await self.dataset(dataset)
        # To search for the largest claim that fits, or to count, may take milliseconds.
        if view is None:
            return None
        return await asyncio.to_thread(self._limits.preview, view, asked)

    async def levels(self, dataset: str) -> list[LevelView]:
        return await asyncio.to_thread(self._limits.levels, dataset)

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        return self._limits.budget(dataset, analyst)

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Return who used a dataset, by analyst, purpose, day or month."""
        return await asyncio.to_thread(self._usage.rows, dataset, by, self._last())

    async def sums(self, dataset: str, *, since_day: str) -> UsedSums | None:
        return await asyncio.to_thread(self._usage.sums, dataset, self._last(), since_day=since_day)

    async def decisions(self, dataset: str, *, after: int, most: int) -> list[bytes]:
        view = self.views.dataset(dataset)
        last = 0 if view is None else view.sequence
        upto = self._last()  # after the view, so that this decision is not before its
        read = self._pages.read
        return await asyncio.to_thread(read, dataset, last, upto, after=after, most=most)

    @property
    def partitions(self) -> int:
        """1: a file has one partition."""
        return 1

    async def read_log(self, partition: int, first: int, most: int) -> list[bytes]:
        """As `LedgerService.read_log`."""
        return await asyncio.to_thread(self._reader.slice, first, most)

    async def last_decision(self, partition: int) -> tuple[int, bytes]:
        """As `LedgerService.last_decision`."""
        last = self._last()
        (value,) = await self.read_log(partition, last, 1)
        return last, value

    def member(self, dataset: str, name: str) -> MemberRow | None:
        """As `LedgerService.member`."""
        return self._held().members.get(dataset, name)

    def memberships(self, name: str) -> list[MemberRow]:
        """As `LedgerService.memberships`."""
        return self._held().members.memberships(name)

    async def members(self, dataset: str) -> list[Member]:
        rows = self._held().members.of(dataset).copy()
        return [row.told for _, row in sorted(rows.items())]

    def decided_at(self, dataset: str) -> int:
        """As `LedgerService.decided_at`."""
        return self._held().decided_at

    def ordered_before(self) -> int | None:
        """As `Service.ordered_before`."""
        return ordered_before([self._held().resets])

    def _last(self) -> int:
        """Return the number of the last decision that readers see."""
        return self._held().sequence
