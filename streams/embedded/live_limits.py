"""How the datasets of a ledger's file are divided, as its writer has it in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from accountant.advice.preview import Preview, preview
from accountant.limits.applicable_limits import team_of
from accountant.partition import Partition
from accountant.records.members import MemberRow
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import (
    AnalystBudget,
    DatasetLimits,
    LevelView,
    analyst_budget,
    level_views,
)
from streams.clock import Clock


class LiveLimits:
    """The limits of every dataset, and what is left under them. Any thread may call it.

    Args:
        held: returns the partition; raises Unavailable while there is none.
    """

    def __init__(self, held: Callable[[], Partition], clock: Clock) -> None:
        self._held = held
        self._clock = clock

    def levels(self, dataset: str) -> list[LevelView]:
        """As `Service.levels`."""
        divided = self._divided(dataset)
        return [] if divided is None else level_views(divided)

    def budget(self, dataset: str, analyst: str) -> AnalystBudget | None:
        """As `Service.budget_for`."""
        divided, rows = self._divided_for(dataset, analyst)
        if divided is None:
            return None
        return analyst_budget(divided, analyst, team_of(rows[analyst], divided.at))

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        """As `Service.preview`."""
        divided, rows = self._divided_for(view.dataset, asked.analyst or "", asked.via or "")
        return preview(view, asked, divided, lambda _, name: rows.get(name))

    def _divided(self, dataset: str) -> DatasetLimits | None:
        held = self._held()
        ledger = held.ledgers.get(dataset)
        if ledger is None:
            return None
        return DatasetLimits(ledger, held.levels, self._now(held), held.resets)

    def _divided_for(
        self, dataset: str, analyst: str, via: str = ""
    ) -> tuple[DatasetLimits | None, dict[str, MemberRow | None]]:
        """Return what somebody's requests are checked at, and who they are, all of one moment.

        Another thread commits meanwhile: a ledger of before and a share of after a grant would
        together promise what neither does.
        """
        while True:
            held = self._held()
            moves, ledger, now = held.moves, held.ledgers.get(dataset), self._now(held)
            if ledger is None:
                return None, {}
            rows = {name: held.members.get(dataset, name) for name in (analyst, via)}
            levels = held.levels.for_analyst(dataset, analyst, team_of(rows[analyst], now))
            divided = DatasetLimits(ledger, levels, now, held.resets)
            if held.moves == moves and moves % 2 == 0:
                return divided, rows
            time.sleep(0)

    def _now(self, held: Partition) -> int:
        return max(self._clock.now(), held.decided_at)
