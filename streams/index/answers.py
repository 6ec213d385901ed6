"""What a service that keeps an index answers from it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from accountant.records.members import Member
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.usage import UsageView
from accountant.views.why import UsedSums, Why, lefts, since_day, spenders, why_of
from streams.clock import Clock
from streams.index.census import By, UsageRow


class UsageAnswers(ABC):
    """Usage and why, of a service that reads its index."""

    _clock: Clock

    @abstractmethod
    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """As `Indexed.usage_by`."""

    @abstractmethod
    async def sums(self, dataset: str, *, since_day: str) -> UsedSums | None:
        """Return all that `why` is made of, None of a dataset that was never opened.

        Raises: Unavailable: the index is behind, or cannot be read.
        """

    @abstractmethod
    async def dataset(self, name: str) -> DatasetView | None:
        """As `Service.dataset`."""

    @abstractmethod
    async def levels(self, dataset: str) -> list[LevelView]:
        """As `Service.levels`."""

    @abstractmethod
    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        """As `Service.budget_for`."""

    @abstractmethod
    async def members(self, dataset: str) -> list[Member]:
        """As `Service.members`."""

    async def usage(self, dataset: str) -> list[UsageView]:
        """As `Service.usage`."""
        return [row.view() for row in await self.usage_by(dataset, "analyst")]

    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        """As `Service.why`."""
        now, view = self._clock.now(), await self.dataset(dataset)
        if view is None:
            return None
        sums = await self.sums(dataset, since_day=since_day(now))
        members = await self.members(dataset)
        if sums is None:
            return None
        levels, budgets = await self.levels(dataset), dict[str, AnalystBudget]()
        if levels:
            for name in spenders(sums, members, analyst)[1]:
                budget = await self.budget_for(dataset, name)
                if budget is not None:
                    budgets[name] = budget
        left = lefts(view, levels, budgets, {each.team for each in members if each.team})
        # In a thread: thousands of rows would keep the loop from answering others.
        return await asyncio.to_thread(
            why_of, view, sums, members, now=now, analyst=analyst, left=left
        )
