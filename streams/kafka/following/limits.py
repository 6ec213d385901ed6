"""How datasets on Kafka are divided, as a process sees it that follows their rows and decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accountant.advice.preview import Preview, preview
from accountant.partition.key_hash import partition_of
from accountant.partition.levels import team_of
from accountant.records import PartitionRow
from accountant.records.limits.rows import LevelRow
from accountant.records.outcomes import Outcome
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView
from accountant.views.follow import LogLine
from accountant.views.ledgers import ledger_of, plan_of
from accountant.views.level_follow import FollowedLevels
from accountant.views.level_views import Divided, analyst_budget, level_views
from accountant.views.levels import AnalystBudget, LevelView
from accountant.views.members import MemberViews
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
        self._levels = FollowedLevels()

    def take_row(self, row: LevelRow) -> None:
        """Take in a level's row."""
        self._levels.take_row(row)

    def take_partition_row(self, row: PartitionRow) -> None:
        """Take in a partition's own row, which counts the resets of its clock."""
        resets = row.resets or 0, row.reset_at or 0
        self._levels.take_resets(row.genesis.partition, row.partition_sequence, *resets)

    def take_lines(
        self, partition: int, lines: Iterable[LogLine], views: Mapping[str, DatasetView]
    ) -> None:
        """Take in decisions; `views` are as they are after these."""
        for line in lines:
            if line.limit is None and not line.levels and line.outcome is not Outcome.CLOCK_RESET:
                continue
            view = None if line.dataset is None else views.get(line.dataset)
            plan = None if view is None else plan_of(view)
            try:
                self._levels.take_line(partition, line, plan)
            except ValueError as error:  # whoever owns the partition stops at it
                _log.warning("level_unreadable", partition=partition, why=str(error))

    def levels(self, view: DatasetView) -> list[LevelView]:
        """As `Service.levels`."""
        return level_views(self._divided(view))

    def budget(self, view: DatasetView, analyst: str) -> AnalystBudget:
        """As `Service.budget_for`."""
        return analyst_budget(self._divided(view), analyst, self._team_of(view, analyst))

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        """As `Service.preview`."""
        team = self._team_of(view, asked.analyst or "")
        return preview(view, asked, self._divided(view), team)

    def _divided(self, view: DatasetView) -> Divided:
        ledger = ledger_of(view)
        partition = partition_of(view.dataset.encode(), self._partitions)
        at = max(self._clock.now(), ledger.changed_at)
        return Divided(ledger, self._levels.table, at, self._levels.resets(partition))

    def _team_of(self, view: DatasetView, analyst: str) -> str:
        return team_of(self._members.get(view.dataset, analyst), self._clock.now())
