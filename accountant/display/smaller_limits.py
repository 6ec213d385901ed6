"""Asks the sender of a member or a limit back, also one who accepts an ask with less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from accountant.display.limits import scope_words
from accountant.display.numbers import Texts, counting_line
from accountant.errors import RequestInvalid
from accountant.limits.apply import is_possible, limit_record_of
from accountant.records.limit_fields import kind_of, own_policy
from accountant.records.limit_records import LimitPolicy
from accountant.records.members import Member
from accountant.records.requests import SetLimit
from accountant.views.confirmations import (
    Confirmation,
    OfPeople,
    confirmations_of_people,
    person_of,
    team_of,
)
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import plan_of
from accountant.views.limit_views import ScopeView


def may_be_asked_back(record: OfPeople) -> bool:
    """Tell whether a record names a team or a person, or accepts an ask for a larger limit."""
    accepts = isinstance(record, SetLimit) and record.answers is not None
    return bool(team_of(record) or person_of(record)) or accepts


def confirmations_of_division(
    record: OfPeople,
    view: DatasetView,
    members: Sequence[Member],
    limits: Sequence[ScopeView],
) -> list[Confirmation]:
    """Return what to ask before a record about people of a dataset is sent."""
    found = confirmations_of_people(record, members, limits)
    if isinstance(record, SetLimit):
        found += _confirmations_of_smaller_limit(record, view, members, limits)
    return found


def _confirmations_of_smaller_limit(
    record: SetLimit, view: DatasetView, members: Iterable[Member], limits: Iterable[ScopeView]
) -> list[Confirmation]:
    """Return what to ask before a limit that accepts an ask lowers the one in force.

    An analyst without a limit of their own has the default of the team. Budgets of two filters are
    not compared: use is counted from 0 again.
    """
    before = _in_force(record, members, limits)
    given = {} if record.answers is None else _budget(record, view)
    if before is None or not before.budget or not given:
        return []
    if _kind(before.policy, view) != _kind(record.policy, view):
        return []
    why, used = "", before.used or {}
    if any(Fraction(given[name]) < Fraction(before.budget[name]) for name in given):
        why = f"less than the limit in force, {counting_line(before.budget, before.budget)}"
    if any(Fraction(used.get(name, "0")) >= Fraction(given[name]) > 0 for name in given):
        why = (
            f"not more than what is used already, {counting_line(used, given)}, so nothing more "
            "would be granted"
        )
    if not why:
        return []
    amount = counting_line(given, given)
    what = (
        f"nothing was changed: ask {record.answers} is for more, and "
        f"{scope_words(record.scope, record.name)} would get {amount}, {why}. Give more, or "
        "decline the ask."
    )
    field, value = ("policy", amount) if record.part is None else ("part", record.part)
    return [Confirmation("smaller_limit", field, value, "", what)]


def _in_force(
    record: SetLimit, members: Iterable[Member], limits: Iterable[ScopeView]
) -> ScopeView | None:
    known = {(each.scope, each.name): each for each in limits}
    own = known.get((record.scope, record.name))
    if own is not None or record.scope != "analyst":
        return own
    teams = {each.member: each.team for each in members}
    return known.get(("each", teams.get(record.name or "")))


def _budget(record: SetLimit, view: DatasetView) -> Texts:
    """Return what a limit allows in all; nothing where it does not, or will be refused."""
    plan = plan_of(view)
    try:
        given = limit_record_of(record, plan, 1, None).budget
    except RequestInvalid:
        return {}
    return given or {} if is_possible(record, plan) else {}


def _kind(policy: LimitPolicy | None, view: DatasetView) -> str:
    return kind_of(view.policy if policy is None else own_policy(policy))
