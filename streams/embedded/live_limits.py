"""Reads the limits of a ledger's datasets from the state that its writer has in memory."""

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
        held: returns the current partition; raises Unavailable if there is none.
    """

    def __init__(self, held: Callable[[], Partition], clock: Clock) -> None:
        self._held = held
        self._clock = clock

    def levels(self, dataset: str) -> list[LevelView]:
        """Implement `Service.levels`."""
        divided = self._divided(dataset)
        return [] if divided is None else level_views(divided)

    def budget(self, dataset: str, analyst: str) -> AnalystBudget | None:
        """Implement `Service.budget_for`."""
        divided, rows = self._divided_for(dataset, analyst)
        if divided is None:
            return None
        return analyst_budget(divided, analyst, team_of(rows[analyst], divided.at))

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        """Implement `Service.preview`."""
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
        """Return the limits that apply to an analyst, and the member rows, of one moment.

        Another thread may commit meanwhile. A ledger before a grant together with a reserved share
        after it would promise more than is left, so this is a seqlock: retry until `moves` is even
        and has not changed.
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
