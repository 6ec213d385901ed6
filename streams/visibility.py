"""What a caller sees of a ledger's datasets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from accountant.policy import Policy
from accountant.records.members import MemberRow, Role
from accountant.views.datasets import DatasetView
from accountant.views.population import with_joint
from accountant.views.visibility import SEES_ALL, WHOLE, Caller, DatasetAccess, access_of
from streams.clock import Clock
from streams.service import LedgerService


class Sight:
    """What the caller sees, by the members that this process knows of now.

    Args:
        caller: None where authentication is off: everybody sees all.

    Attributes:
        is_whole: every dataset is seen whole.
    """

    def __init__(self, service: LedgerService, clock: Clock, caller: Caller | None) -> None:
        self.service = service
        self._clock = clock
        self.caller = caller
        self.is_whole = caller is None or caller.is_administrator

    def of(self, dataset: str, policy: Policy) -> DatasetAccess | None:
        """Return what is seen of a dataset that has a policy; None for nothing of it.

        Raises: Unavailable: the members are not known now.
        """
        row = None if self.is_whole else self._in_force(dataset)
        return access_of(self.caller, policy, row)

    def roles(self, dataset: str) -> frozenset[Role]:
        """Return the caller's roles on a dataset that are in force; none without a caller."""
        if self.caller is None:
            return frozenset()
        row = self._in_force(dataset)
        return frozenset() if row is None else frozenset(row.roles)

    def _in_force(self, dataset: str) -> MemberRow | None:
        assert self.caller is not None
        row = self.service.member(dataset, self.caller.name)
        return row if row is not None and row.is_in_force(self.now(dataset)) else None

    def sees_all_somewhere(self) -> bool:
        """Tell whether there is a dataset of which all is seen; to be called beside the loop."""
        if self.caller is None or self.caller.is_administrator:
            return True
        return any(not SEES_ALL.isdisjoint(row.roles) for row in self.memberships())

    def now(self, dataset: str) -> int:
        """Return the time of a dataset's members, in milliseconds since 1970.

        Never before the log's own: where the clock of this machine was set back, nobody is let
        in again whose time was over when the last decision was made.
        """
        return max(self._clock.now(), self.service.decided_at(dataset))

    def memberships(self) -> list[MemberRow]:
        """Return what is in force of the one who asks; to be called beside the loop."""
        assert self.caller is not None
        rows = self.service.memberships(self.caller.name)
        return [row for row in rows if row.is_in_force(self.now(row.dataset))]

    def at(self, dataset: str | None) -> DatasetAccess | None:
        """Return what is seen of whatever a decision is on; None for nothing of it.

        Raises: Unavailable: the members are not known now.
        """
        if self.is_whole:
            return WHOLE
        policy = None if dataset is None else self.service.policy(dataset)
        return None if dataset is None or policy is None else self.of(dataset, policy)

    async def dataset(self, name: str) -> tuple[DatasetView, DatasetAccess] | None:
        """Return a dataset with what is seen of it.

        None alike where it was never opened and where nothing of it is seen.
        """
        view = await self.service.dataset(name)
        access = None if view is None else self.of(name, view.policy)
        return None if view is None or access is None else (view, access)

    def among(self, views: Iterable[DatasetView]) -> list[DatasetView]:
        """Return the datasets that are seen; to be called beside the loop where there are many."""
        return list(filter(self.sees, views))

    def sees(self, view: DatasetView) -> bool:
        """Tell whether anything of a dataset is seen."""
        return self.of(view.dataset, view.policy) is not None

    async def with_joint(self, shown: Sequence[DatasetView]) -> Sequence[DatasetView]:
        """Return datasets that are seen, each of a population with the joint guarantee of that.

        It counts all datasets of the population, for everybody alike: a sum of those alone that
        somebody sees would promise them what does not hold.
        """
        if not any(view.policy.population for view in shown):
            return shown
        every = await self.service.datasets()
        ordered = self.service.ordered_before()
        # Beside the loop: to go through very many takes longer than a decision may wait.
        return await asyncio.to_thread(with_joint, shown, every, self.sees, ordered=ordered)
