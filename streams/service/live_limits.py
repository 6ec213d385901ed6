"""Reads the limits and open reservations of datasets from the state of their partitions."""

from __future__ import annotations

import time
from collections.abc import Callable

from accountant.advice.preview import Preview, preview
from accountant.limits.applicable_limits import team_of
from accountant.members.pauses import pause_of_person
from accountant.partition import Partition
from accountant.partition.approvals import clock_of
from accountant.records.asks import AskRow
from accountant.records.members import MemberRow
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import (
    AnalystBudget,
    DatasetLimits,
    ScopeView,
    analyst_budget,
    default_views,
    scope_views,
)
from accountant.views.pending import PendingView, pending_views
from accountant.views.reservations import OpenReservations
from streams.clock import Clock


class LiveLimits:
    """Reads the limits of every dataset and their remaining budgets. Any thread may call it.

    Args:
        partition_with: returns the current state of a dataset's partition; raises Unavailable
            where it is not known now.
    """

    def __init__(self, partition_with: Callable[[str], Partition], clock: Clock) -> None:
        self._partition_with = partition_with
        self._clock = clock

    def levels(self, dataset: str) -> list[ScopeView]:
        """As `Service.levels`."""
        limits = self._limits_of(dataset)
        return [] if limits is None else scope_views(limits)

    def default_levels(self, dataset: str) -> list[ScopeView]:
        """As `LedgerService.default_levels`."""
        limits = self._limits_of(dataset)
        if limits is None:
            return []
        teams = {row.member: team_of(row, limits.at) for row in self.roster(dataset)}
        return default_views(limits, teams)

    def budget(self, dataset: str, analyst: str) -> AnalystBudget | None:
        """As `Service.budget_for`."""
        limits, rows = self._consistent_limits(dataset, analyst)
        if limits is None:
            return None
        pause = pause_of_person(limits.ledger.facts.person_pauses, analyst, rows[analyst])
        return analyst_budget(limits, analyst, team_of(rows[analyst], limits.at), pause)

    def reservations(self, dataset: str) -> OpenReservations:
        """As `LedgerService.open_reservations`."""
        partition = self._partition_with(dataset)
        ledger = partition.ledgers.get(dataset)
        if ledger is None:
            return OpenReservations((), 0)
        rows = partition.reservations.open_of(dataset)
        in_order = sorted(rows, key=lambda row: row.sequence)
        return OpenReservations(in_order, ledger.clock(partition.decided_at))

    def pending(self, dataset: str) -> tuple[PendingView, ...]:
        """As `Service.pending`, of everybody."""
        partition = self._partition_with(dataset)
        ledger = partition.ledgers.get(dataset)
        if ledger is None:
            return ()
        rows = partition.pending.of(dataset).copy().values()
        at = clock_of(ledger, partition.decided_at)
        return pending_views(rows, at, partition.resets.number)

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        """As `Service.preview`."""
        limits, rows = self._consistent_limits(view.dataset, asked.analyst or "", asked.via or "")
        return preview(view, asked, limits, lambda _, name: rows.get(name), self.roster)

    def roster(self, dataset: str) -> list[MemberRow]:
        """Return the rows of a dataset's members."""
        # A copy: another thread may commit meanwhile.
        return [*self._partition_with(dataset).members.of(dataset).copy().values()]

    def asks(self, dataset: str) -> list[AskRow]:
        """Return a dataset's asks, the oldest first."""
        return self._partition_with(dataset).asks.of(dataset)

    def _limits_of(self, dataset: str) -> DatasetLimits | None:
        partition = self._partition_with(dataset)
        ledger = partition.ledgers.get(dataset)
        if ledger is None:
            return None
        now, rows = self._decision_time(partition), partition.reservations.open_of(dataset)
        return DatasetLimits(ledger, partition.levels, now, partition.resets, rows)

    def _consistent_limits(
        self, dataset: str, analyst: str, via: str = ""
    ) -> tuple[DatasetLimits | None, dict[str, MemberRow | None]]:
        """Return the limits that apply to an analyst, and the member rows, of the same moment.

        Another thread may commit at the same time. A ledger from before a grant combined with a
        reserved share from after it would promise too much. So this is a seqlock: it retries until
        `moves` is even and has not changed.
        """
        while True:
            partition = self._partition_with(dataset)
            moves, ledger, now = (
                partition.moves,
                partition.ledgers.get(dataset),
                self._decision_time(partition),
            )
            if ledger is None:
                return None, {}
            rows = {name: partition.members.get(dataset, name) for name in (analyst, via)}
            team = team_of(rows[analyst], now)
            levels = partition.levels.for_analyst(dataset, analyst, team, now)
            held = partition.reservations.open_of(dataset)
            limits = DatasetLimits(ledger, levels, now, partition.resets, held)
            if partition.moves == moves and moves % 2 == 0:
                return limits, rows
            time.sleep(0)

    def _decision_time(self, partition: Partition) -> int:
        return max(self._clock.now(), partition.decided_at)
