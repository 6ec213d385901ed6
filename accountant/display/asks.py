"""Asks for more in words, and the membership that accepts one."""

from __future__ import annotations

from collections.abc import Iterable

from accountant.display.numbers import exact_percent
from accountant.policy import Policy
from accountant.records.limit_fields import BUDGET_FIELDS
from accountant.records.members import Member, sort_roles
from accountant.views.asks import AskView


def wanted_words(ask: AskView) -> str:
    """Return what is asked for, in words: `the role analyst`."""
    if ask.role is not None:
        return f"the role {ask.role}"
    amount = exact_percent(ask.part) if ask.part is not None else ""
    if ask.budget is not None:
        amount = f"{ask.budget.field} {ask.budget.amount}"
    of_team = f" for team {ask.team}" if ask.team else ""
    return f"a {'limit' if ask.wants == 'limit' else 'budget'} of {amount}{of_team}"


def membership_for(
    ask: AskView,
    members: Iterable[Member],
    at: int,
    *,
    team: str | None = None,
    until: str | None = None,
) -> Member:
    """Return the membership that accepts an ask for access: the role, with what is there.

    Args:
        members: of the dataset; a membership of the person that is in force at a time, in
            milliseconds since 1970, keeps its other roles.
        team, until: those from then on; None for those so far.
    """
    known = next((each for each in members if each.member == ask.by), None)
    before = known if known is not None and known.is_in_force(at) else None
    role = ask.role or "analyst"
    roles = sort_roles((*(before.roles if before else ()), role))
    team = team or (before.team if before else None)
    until = until or (before.until if before else None)
    return Member(ask.by, roles, team, None if "owner" in roles else until)


def own_budget(policy: Policy, amounts: dict[str, str]) -> dict[str, object]:
    """Return the budget of a limit under a dataset's filter, with an amount of its own."""
    kept = {name: each for name in BUDGET_FIELDS if (each := getattr(policy, name, None))}
    return {name: each for name, each in kept.items() if name not in {"epsilon", "rho"}} | amounts
