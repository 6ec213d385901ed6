"""How datasets on Kafka are divided, as a process sees it that follows their rows and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from accountant.advice.preview import Preview, preview
from accountant.limits.applicable_limits import team_of
from accountant.limits.wire import LevelRow
from accountant.partition.key_hash import partition_of
from accountant.records import PartitionRow, decode_decision
from accountant.records.header import DecisionHeader
from accountant.records.outcomes import Outcome
from accountant.records.previews import PreviewRequest
from accountant.times import from_iso
from accountant.views.alerts import limit_alerts_of_decision, may_alert_of_limits
from accountant.views.datasets import Alert, DatasetView
from accountant.views.ledgers import ledger_of, plan_of
from accountant.views.limit_follower import LevelFollower
from accountant.views.limit_views import (
    AnalystBudget,
    DatasetLimits,
    LevelView,
    analyst_budget,
    level_views,
)
from accountant.views.members import MemberViews
from accountant.views.population import ordered_before
from streams.clock import Clock
from streams.logs import get_logger

_log = get_logger(__name__)


class FollowedLimits:
    """The limits of every dataset, and what is left under them.

    Args:
        partitions: how many the ledger has.
    """

    def __init__(self, members: MemberViews, clock: Clock, partitions: int) -> None:
        self._members = members
        self._clock = clock
        self._partitions = partitions
        self._levels = LevelFollower()
        self._decided: dict[int, tuple[int, int]] = {}  # by partition: the last decision, and when

    def take_row(self, row: LevelRow) -> None:
        """Take in a level's row.

        Raises: ValueError: an amount in it is none.
        """
        self._levels.take_row(row)

    def take_partition_row(self, row: PartitionRow) -> None:
        """Take in a partition's own row: its clock, and the resets of that."""
        partition, resets = row.genesis.partition, (row.resets or 0, row.reset_at or 0)
        self._levels.take_resets(partition, row.partition_sequence, *resets)
        self._take_time(partition, row.partition_sequence, row.decided_at)

    def take_lines(
        self, partition: int, lines: Sequence[DecisionHeader], views: Mapping[str, DatasetView]
    ) -> None:
        """Take in decisions in the log's order, one at least; `views` are as after these."""
        last = lines[-1]
        self._take_time(partition, last.partition_sequence, from_iso(last.decided_at))
        for line in lines:
            if line.limit is None and not line.levels and line.outcome is not Outcome.CLOCK_RESET:
                continue
            view = None if line.dataset is None else views.get(line.dataset)
            plan = None if view is None else plan_of(view)
            try:
                self._levels.take_line(partition, line, plan)
            except ValueError as error:  # whoever owns the partition stops at it
                _log.warning("level_unreadable", partition=partition, why=str(error))

    def alerts(
        self, decided: Iterable[tuple[DecisionHeader, bytes]], views: Mapping[str, DatasetView]
    ) -> list[Alert]:
        """Return the alerts of levels that decisions give rise to.

        Args:
            decided: each decision as its line and its bytes; taken in before.
            views: as they are after these.
        """
        found: list[Alert] = []
        for line, value in decided:
            view = None if line.dataset is None else views.get(line.dataset)
            if view is None or not may_alert_of_limits(line.outcome, line.levels):
                continue
            try:
                found += limit_alerts_of_decision(decode_decision(value), view, self.levels(view))
            except Exception as error:
                # A row of a limit that fits nothing would keep every later decision from being
                # read, of all datasets.
                _log.warning("level_unreadable", dataset=view.dataset, why=str(error))
        return found

    def ordered_before(self) -> int | None:
        """As `Service.ordered_before`."""
        return ordered_before([self._levels.resets(number) for number in range(self._partitions)])

    def levels(self, view: DatasetView) -> list[LevelView]:
        """As `Service.levels`."""
        return level_views(self._divided(view))

    def budget(self, view: DatasetView, analyst: str) -> AnalystBudget:
        """As `Service.budget_for`."""
        divided = self._divided(view)
        return analyst_budget(divided, analyst, self._team_of(view, analyst, divided.at))

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Callable[[], Preview]:
        """Return what makes a preview as of now; any thread may call it, while decisions follow."""
        divided, analyst = self._divided(view), asked.analyst or ""
        rows = {name: self._members.get(view.dataset, name) for name in (analyst, asked.via or "")}
        team = team_of(rows[analyst], divided.at)
        levels = divided.levels.of_one(view.dataset, analyst, team)
        divided = divided._replace(levels=levels)
        return partial(preview, view, asked, divided, lambda _, name: rows.get(name))

    def _divided(self, view: DatasetView) -> DatasetLimits:
        partition = partition_of(view.dataset.encode(), self._partitions)
        # The ledger's clock never goes back but by a reset, after which a dataset's own last
        # decision may lie ahead: only the partition's last one tells what time it is.
        _, decided_at = self._decided.get(partition, (-1, 0))
        at = max(self._clock.now(), decided_at)
        return DatasetLimits(
            ledger_of(view), self._levels.table, at, self._levels.resets(partition)
        )

    def _team_of(self, view: DatasetView, analyst: str, at: int) -> str:
        return team_of(self._members.get(view.dataset, analyst), at)

    def _take_time(self, partition: int, sequence: int, at: int) -> None:
        if sequence >= self._decided.get(partition, (-1, 0))[0]:
            self._decided[partition] = sequence, at
