"""The limits of datasets on Kafka, in a process that follows their rows and decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from accountant.advice.preview import Preview, preview
from accountant.limits.applicable_limits import team_of
from accountant.partition import hash_of
from accountant.partition.key_hash import home_of
from accountant.records import DECODE_ERRORS, PartitionRow
from accountant.records.header import DecisionHeader
from accountant.records.limit_records import ScopeRow
from accountant.records.placement import Placement
from accountant.records.previews import PreviewRequest
from accountant.records.reservation_rows import ReservationRow
from accountant.reservations.reservation import Reservation
from accountant.times import from_iso
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import ledger_of, plan_of
from accountant.views.limit_follower import ScopeFollower
from accountant.views.limit_views import (
    AnalystBudget,
    DatasetLimits,
    ScopeView,
    analyst_budget,
    scope_views,
)
from accountant.views.members import MemberViews
from accountant.views.population import ordered_before
from accountant.views.reservation_follower import ReservationFollower
from accountant.views.reservations import OpenReservations
from streams.clock import Clock
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)


class FollowerLimits:
    """The limits and open reservations of every dataset, and the budget that remains.

    Args:
        partitions, placement: of the ledger.
    """

    def __init__(
        self, members: MemberViews, clock: Clock, partitions: int, placement: Placement
    ) -> None:
        self._members = members
        self._clock = clock
        self._partitions = partitions
        self._placement = placement
        self._levels = ScopeFollower()
        self._reservations = ReservationFollower()
        self._decided: dict[int, tuple[int, int]] = {}  # by partition: last decision and its time

    def take_row(self, row: ScopeRow) -> None:
        """Apply a limit's row.

        Raises: ValueError: an amount in it is not a number.
        """
        self._levels.take_row(row)

    def take_reservation_row(self, row: ReservationRow) -> None:
        """Apply a reservation's row.

        Raises: ValueError: an amount in it is not a number.
        """
        self._reservations.take_row(row)

    def take_partition_row(self, row: PartitionRow) -> None:
        """Apply a partition's own row: its clock, and the resets of that clock."""
        partition = row.genesis.partition
        self._levels.take_resets(partition, row.partition_sequence, *row.clock_resets)
        self._take_time(partition, row.partition_sequence, row.decided_at)

    def take_lines(
        self,
        partition: int,
        lines: Sequence[DecisionHeader],
        values: Sequence[bytes],
        views: Mapping[str, DatasetView],
    ) -> None:
        """Apply one or more decisions in the log's order.

        Args:
            values: the decisions' bytes.
            views: the state after them.
        """
        last = lines[-1]
        self._take_time(partition, last.partition_sequence, from_iso(last.decided_at))
        for line, value in zip(lines, values, strict=True):
            moves = line.limit is not None or line.levels or line.outcome.resets_clock
            reserves = line.reservation is not None or self._reservations.has(line.dataset)
            if not moves and not reserves:
                continue
            view = None if line.dataset is None else views.get(line.dataset)
            plan = None if view is None else plan_of(view)
            try:
                charges = self._levels.charges(partition, line, plan)
                self._levels.take_line(partition, line, plan)
                if reserves:
                    grants = line.outcome.reserves
                    digest = (line.part_of or hash_of(value)) if grants else ""
                    self._reservations.take_line(line, value, digest, charges)
            except (*DECODE_ERRORS, ValueError) as error:
                # The partition's owner halts at it and reports it.
                _log.warning("level_unreadable", partition=partition, why=str(error))

    def ordered_before(self) -> int | None:
        """As `Service.ordered_before`."""
        return ordered_before([self._levels.resets(number) for number in range(self._partitions)])

    def reservations(self, view: DatasetView) -> OpenReservations:
        """As `LedgerService.open_reservations`."""
        name = view.dataset
        partition = home_of(name, self._placement, self._partitions)
        _, decided_at = self._decided.get(partition, (-1, 0))
        at = max(decided_at, self._reservations.latest_at(name))
        found = self._reservations.of(name)
        return OpenReservations(found, at, self._reservations.request_ids(name))

    def reservation(self, dataset: str, grant: str) -> Reservation | None:
        """As `LedgerService.open_reservation`."""
        return self._reservations.get(dataset, grant)

    def levels(self, view: DatasetView) -> list[ScopeView]:
        """As `Service.levels`."""
        return scope_views(self._dataset_limits(view))

    def budget(self, view: DatasetView, analyst: str) -> AnalystBudget:
        """As `Service.budget_for`."""
        divided = self._dataset_limits(view)
        return analyst_budget(divided, analyst, self._team_of(view, analyst, divided.at))

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Callable[[], Preview]:
        """Return a function that makes a preview as of now; any thread may call it."""
        divided, analyst = self._dataset_limits(view), asked.analyst or ""
        rows = {name: self._members.get(view.dataset, name) for name in (analyst, asked.via or "")}
        team = team_of(rows[analyst], divided.at)
        levels = divided.levels.for_analyst(view.dataset, analyst, team)
        divided = divided._replace(levels=levels)
        roster = self._members.of
        return partial(preview, view, asked, divided, lambda _, name: rows.get(name), roster)

    def _dataset_limits(self, view: DatasetView) -> DatasetLimits:
        partition = home_of(view.dataset, self._placement, self._partitions)
        # Use the partition's last decision: after a clock reset, a dataset's own last decision
        # may lie in the future.
        _, decided_at = self._decided.get(partition, (-1, 0))
        at = max(self._clock.now(), decided_at)
        return DatasetLimits(
            ledger_of(view),
            self._levels.table,
            at,
            self._levels.resets(partition),
            self._reservations.of(view.dataset),
        )

    def _team_of(self, view: DatasetView, analyst: str, at: int) -> str:
        return team_of(self._members.get(view.dataset, analyst), at)

    def _take_time(self, partition: int, sequence: int, at: int) -> None:
        if sequence >= self._decided.get(partition, (-1, 0))[0]:
            self._decided[partition] = sequence, at
