"""What a service that keeps an index answers from it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from accountant.records.members import Member
from accountant.views.datasets import DatasetView
from accountant.views.usage import UsageView
from accountant.views.why import UsedSums, Why, since_day, why_of
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
        # In a thread: thousands of rows would keep the loop from answering others.
        return await asyncio.to_thread(why_of, view, sums, members, now=now, analyst=analyst)
