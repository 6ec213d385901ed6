"""Asks for more as people see them; nothing here decides."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET

from accountant.field_rules import Count, Name, Note, Ratio, Time
from accountant.policy.in_force import BudgetInForce
from accountant.records.asks import AskKind, AskRow, AskState, limit_of_ask
from accountant.records.limit_records import Scope
from accountant.records.members import Role
from accountant.times import iso
from accountant.views.visibility import DatasetAccess


class AskView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ask for more, with its answer.

    Attributes:
        ask: the number of the decision that took it: an answer names it.
        by: the person who has asked.
        wants: `access`, `limit` or `budget`; with it `role`, `part` or `budget`.
        team: whose limit it is; None for the person's own.
        reason: theirs, for the owners.
        state: `open`, `accepted` or `declined`.
        answered_at, answered_by: when an owner has answered, and who.
        answer: number of the decision that is the answer.
        why: the owner's reason.
    """

    dataset: Name
    ask: Count
    by: Name
    wants: AskKind
    role: Role | None = None
    part: Ratio | None = None
    budget: BudgetInForce | None = None
    team: Name | None = None
    reason: Note
    asked_at: Time
    state: AskState
    answered_at: Time | None = None
    answered_by: Name | None = None
    answer: Count | None = None
    why: Note = ""

    @property
    def scope(self) -> tuple[Scope, str]:
        """Scope and name of the limit that is asked for."""
        return limit_of_ask(self.by, self.team)

    @property
    def is_open(self) -> bool:
        """Whether no owner has answered."""
        return self.state == "open"


def ask_view(row: AskRow) -> AskView:
    """Return an ask as people see it."""
    return AskView(
        dataset=row.dataset,
        ask=row.ask,
        by=row.by,
        wants=row.wants,
        role=row.role or None,
        part=row.part or None,
        budget=None if row.budget is UNSET else row.budget,
        team=row.team or None,
        reason=row.reason,
        asked_at=iso(row.asked_at),
        state=row.state,
        answered_at=None if row.answered_at is UNSET else iso(row.answered_at),
        answered_by=row.answered_by or None,
        answer=row.answer or None,
        why=row.why or "",
    )


def visible_asks(asks: Iterable[AskView], access: DatasetAccess) -> list[AskView]:
    """Return the asks of a dataset that somebody who sees it is shown: all, or their own."""
    return [each for each in asks if access.sees_all or each.by == access.name]
