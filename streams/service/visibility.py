"""Visibility: which of a ledger's datasets a caller sees, and how much of each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from accountant.policy import Policy
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.members import MemberRow, Role
from accountant.records.parts import value_about
from accountant.views.datasets import DatasetView
from accountant.views.population import is_alone, with_joint
from accountant.views.visibility import (
    READS_OTHERS,
    WHOLE,
    Caller,
    DatasetAccess,
    access_of,
    is_shown_whole,
    visible_view,
)
from streams.clock import Clock
from streams.service.ledger_service import LedgerService


class Visibility:
    """Answers what a caller may see, by the members that this process knows now.

    Args:
        caller: None where authentication is off: everybody sees all.

    Attributes:
        is_whole: the caller sees all of every dataset.
    """

    def __init__(self, service: LedgerService, clock: Clock, caller: Caller | None) -> None:
        self.service = service
        self._clock = clock
        self.caller = caller
        self.is_whole = caller is None or caller.is_administrator

    def of(self, dataset: str, policy: Policy) -> DatasetAccess | None:
        """Return the caller's access to a dataset with this policy, None without any.

        Raises: Unavailable: the members are not known now.
        """
        row = None if self.is_whole else self._in_force(dataset)
        return access_of(self.caller, policy, row, self.service.member)

    def roles(self, dataset: str) -> frozenset[Role]:
        """Return the caller's active roles on a dataset; none without a caller."""
        if self.caller is None:
            return frozenset()
        row = self._in_force(dataset)
        return frozenset() if row is None else frozenset(row.roles)

    def asks(self, view: DatasetView) -> bool:
        """Tell whether the caller may send requests to a dataset; nobody without a caller."""
        if self.caller is None:
            return False
        return view.policy.access != "members" or "analyst" in self.roles(view.dataset)

    def _in_force(self, dataset: str) -> MemberRow | None:
        assert self.caller is not None
        row = self.service.member(dataset, self.caller.name)
        return row if row is not None and row.is_in_force(self.now(dataset)) else None

    def reads_others_somewhere(self) -> bool:
        """Tell whether a role shows others' requests on any dataset. Blocking: use a thread."""
        if self.caller is None or self.caller.is_administrator:
            return True
        return any(not READS_OTHERS.isdisjoint(row.roles) for row in self.memberships())

    def now(self, dataset: str) -> int:
        """Return the time at which memberships count, in milliseconds since 1970.

        Never earlier than the log's last decision. Otherwise setting this machine's clock back
        would bring expired members back.
        """
        return max(self._clock.now(), self.service.decided_at(dataset))

    def memberships(self) -> list[MemberRow]:
        """Return the caller's active memberships. Blocking: call it in a thread."""
        assert self.caller is not None
        rows = self.service.memberships(self.caller.name)
        return [row for row in rows if row.is_in_force(self.now(row.dataset))]

    def of_decision(
        self, dataset: str, value: bytes, header: DecisionHeader | None = None
    ) -> tuple[DecisionHeader, bytes]:
        """Return a decision as a caller who sees one of its datasets is shown it.

        It is the record where the caller sees it in all of its datasets, else as this one sees it.

        Args:
            header: the decision's, where it is decoded already.
        """
        line = decode_header(value) if header is None else header
        if not line.parts or is_shown_whole(line, self.at):
            return line, value
        part = value_about(value, dataset)
        return decode_header(part), part

    def at(self, dataset: str | None) -> DatasetAccess | None:
        """Return the caller's access to a decision's dataset, None without any.

        Raises: Unavailable: the members are not known now.
        """
        if self.is_whole:
            return WHOLE
        policy = None if dataset is None else self.service.policy(dataset)
        return None if dataset is None or policy is None else self.of(dataset, policy)

    async def dataset(self, name: str) -> tuple[DatasetView, DatasetAccess] | None:
        """Return a dataset with the caller's access to it.

        None for a dataset that was never opened and for a hidden one: callers must not be able to
        tell them apart.
        """
        view = await self.service.dataset(name)
        access = None if view is None else self.of(name, view.policy)
        return None if view is None or access is None else (visible_view(access, view), access)

    def among(self, views: Iterable[DatasetView]) -> list[DatasetView]:
        """Return the visible datasets. Of many, call it in a thread."""
        pairs = ((self.of(view.dataset, view.policy), view) for view in views)
        return [visible_view(access, view) for access, view in pairs if access is not None]

    def sees(self, view: DatasetView) -> bool:
        """Tell whether the caller sees anything of a dataset."""
        return self.of(view.dataset, view.policy) is not None

    async def with_joint(self, shown: Sequence[DatasetView]) -> Sequence[DatasetView]:
        """Return visible datasets, each with what it promises together with others.

        The guarantee counts all datasets of the population, hidden ones included. A sum of the
        visible ones alone would promise too much.
        """
        if all(map(is_alone, shown)):
            return shown
        every = await self.service.datasets()
        ordered = self.service.ordered_before()
        # In a thread: very many datasets would delay decisions.
        return await asyncio.to_thread(with_joint, shown, every, self.sees, ordered=ordered)
