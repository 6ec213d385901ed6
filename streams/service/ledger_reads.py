"""The reads of a ledger, over the state of its partitions."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from accountant.advice.preview import Preview
from accountant.dataset_ledger import DatasetLedger
from accountant.partition import Partition
from accountant.policy import Policy
from accountant.records import Decision
from accountant.records.inputs import CheckedInput
from accountant.records.members import Member, MemberRow
from accountant.records.previews import PreviewRequest
from accountant.reservations.reservation import Reservation
from accountant.views.asks import AskView, ask_view
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.overview import Overview
from accountant.views.pending import PendingView
from accountant.views.period import Period
from accountant.views.period_report import PeriodReport
from accountant.views.population import ordered_before
from accountant.views.reservations import OpenReservations, ReservationPage
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.visibility import WHOLE, Caller, DatasetAccess
from accountant.views.why import UsageSums, Why
from streams.clock import Clock
from streams.errors import Unavailable
from streams.log.async_log import AsyncLog
from streams.service.announcements import Announcements
from streams.service.dataset_reads import overview_of, usage_of, why_of_dataset
from streams.service.dry_run import dry_run
from streams.service.ledger_service import LedgerService, heads_of
from streams.service.live_limits import LiveLimits
from streams.service.live_views import LiveViews, RequestCounts
from streams.service.period_reports import report_of_period
from streams.service.reservation_reads import reservations_of

T = TypeVar("T")


class LogIndex(Protocol):
    """What the state of a partition does not have: usage, and a dataset's decisions by number.

    Raises of every method: Unavailable: the index lags, or it or the log cannot be read.
    """

    async def rows(self, dataset: str, by: By) -> list[UsageRow]:
        """Return who used a dataset, over every decision that this process shows."""
        ...

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        """Return the sums that `why` needs; as `rows`."""
        ...

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        """Return a dataset's decisions after a number in it; as `Service.decisions`."""
        ...


class LedgerReads(LedgerService, ABC):
    """The reading methods of a `LedgerService`, once for every place where a ledger is.

    A subclass has the states and the log, and what it does with a submitted body.

    Args:
        counts: of the decisions.
        index: of the log.
        announced: to subscribers; nothing by a process that is not notified.
    """

    def __init__(
        self,
        clock: Clock,
        counts: RequestCounts,
        index: LogIndex,
        log: AsyncLog,
        announced: Announcements | None = None,
    ) -> None:
        self._async_log = log
        self._announced = announced or Announcements()
        self._clock = clock
        self._index = index
        self.views = LiveViews(self._ledgers, self._ledger, counts)
        self._limits = LiveLimits(self._partition_with, clock)

    @abstractmethod
    def _partition(self, number: int) -> Partition:
        """Return the current state of a partition.

        Raises: Unavailable: it is not known now.
        """

    async def _read(self, read: Callable[..., T], *args: object) -> T:
        """Read the state, which takes microseconds where it is in memory."""
        return read(*args)

    def events(self) -> AsyncIterator[Decision]:
        return self._announced.decisions.subscribe()

    def alerts(self) -> AsyncIterator[Alert]:
        return self._announced.alerts.subscribe()

    @property
    def log(self) -> AsyncLog:
        return self._async_log

    @property
    def partitions(self) -> int:
        return 1

    def partition_of(self, dataset: str) -> int:
        return 0

    def _partition_with(self, dataset: str) -> Partition:
        return self._partition(self.partition_of(dataset))

    def _every_partition(self) -> list[Partition]:
        return [self._partition(number) for number in range(self.partitions)]

    def _ledgers(self) -> list[dict[str, DatasetLedger]]:
        return [partition.ledgers.copy() for partition in self._every_partition()]

    def _ledger(self, dataset: str) -> DatasetLedger | None:
        return self._partition_with(dataset).ledgers.get(dataset)

    async def datasets(self) -> list[DatasetView]:
        # Use a thread: with very many datasets this takes a quarter of a second.
        return list((await asyncio.to_thread(self.views.datasets)).values())

    async def dataset(self, name: str) -> DatasetView | None:
        return await self._read(self.views.dataset, name)

    def check_is_known(self, dataset: str) -> None:
        """Return: a process that has a ledger's file knows each dataset."""

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        view = await self.dataset(dataset)
        if view is None:
            return None
        # Use a thread: a search for the largest claim that fits may take milliseconds.
        return await asyncio.to_thread(self._limits.preview, view, asked)

    async def levels(self, dataset: str) -> list[ScopeView]:
        return await asyncio.to_thread(self._limits.levels, dataset)

    async def default_levels(self, dataset: str) -> list[ScopeView]:
        return await asyncio.to_thread(self._limits.default_levels, dataset)

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        return await self._read(self._limits.budget, dataset, analyst)

    async def dry_run(
        self, dataset: str, records: Sequence[tuple[bytes, CheckedInput]]
    ) -> list[Decision]:
        now = self._clock.now()
        return await asyncio.to_thread(dry_run, self._partition_with, dataset, records, now)

    async def open_reservations(self, dataset: str) -> OpenReservations:
        return await self._read(self._limits.reservations, dataset)

    async def reservations(
        self, dataset: str, *, after: int, limit: int, access: DatasetAccess = WHOLE
    ) -> ReservationPage:
        now = self._clock.now()
        return await reservations_of(
            self, dataset, after=after, limit=limit, access=access, now=now
        )

    async def pending(self, dataset: str, *, access: DatasetAccess = WHOLE) -> list[PendingView]:
        found = await self._read(self._limits.pending, dataset)
        return [each for each in found if access.lists(each.analyst, each.via, each.sequence)]

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        known = await self._read(self._ledger, dataset)
        return [] if known is None else await self._index.rows(dataset, by)

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        return await self._index.sums(dataset, since_day=since_day)

    async def usage(self, dataset: str) -> list[UsageView]:
        return await usage_of(self, dataset)

    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        return await why_of_dataset(self, dataset, now=self._clock.now(), analyst=analyst)

    async def report(
        self, dataset: str, period: Period, *, access: DatasetAccess = WHOLE
    ) -> PeriodReport | None:
        now = self._clock.now()
        return await report_of_period(self, dataset, period, access=access, now=now)

    async def overview(self, dataset: str, caller: Caller | None) -> Overview | None:
        return await overview_of(self, dataset, caller, self._clock)

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        known = await self._read(self._ledger, dataset)
        if known is None:
            return []
        return await self._index.decisions(dataset, after=after, limit=limit)

    async def members(self, dataset: str) -> list[Member]:
        rows = await self._read(self._limits.roster, dataset)
        return [row.as_member for row in sorted(rows, key=lambda row: row.member)]

    async def asks(self, dataset: str) -> list[AskView]:
        rows = await self._read(self._limits.asks, dataset)
        return list(map(ask_view, rows))

    async def heads(self) -> list[Head]:
        return await heads_of(self)

    def ordered_before(self) -> int | None:
        return ordered_before([each.resets for each in self._every_partition()])

    def policy(self, dataset: str) -> Policy | None:
        ledger = self._ledger(dataset)
        return None if ledger is None else ledger.plan.policy

    def member(self, dataset: str, name: str) -> MemberRow | None:
        return self._partition_with(dataset).members.get(dataset, name)

    def memberships(self, name: str) -> list[MemberRow]:
        found = [row for each in self._every_partition() for row in each.members.memberships(name)]
        return sorted(found, key=lambda row: row.dataset)

    def open_reservation(self, dataset: str, grant: str) -> Reservation | None:
        found = self._partition_with(dataset).reservations.get(dataset, grant)
        return found if found is not None and found.is_open else None

    def decided_at(self, dataset: str) -> int:
        return self._partition_with(dataset).decided_at

    def branch(self, partition: int) -> int | None:
        with suppress(Unavailable):
            return self._partition(partition).branch
        return None

    def newest_checkpoint(self, partition: int) -> bytes | None:
        """Return None: this process signs none."""
        return None
