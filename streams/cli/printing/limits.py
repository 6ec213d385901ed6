"""Limits of a budget, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accountant.records import Decision
    from accountant.records.limits.limits import LimitTold, Scope, Texts

_WHOSE = {
    "dataset": "the whole dataset",
    "team": "team {name}",
    "analyst": "analyst {name}",
    "each": "each analyst of team {name}",
}
_RUN_OUT = {
    "limit": "the limit of {whose} has no room",
    "pace": "the pace of {whose} has no room until its period ends",
    "reserved": "the rest of the budget is reserved for others",
}


def whose(scope: Scope, name: str | None) -> str:
    """Return whom a limit holds for."""
    return _WHOSE[scope].format(name=name)


def limit_words(limit: LimitTold | None) -> str:
    """Return what a limit says, to go behind an outcome; "" where there is none."""
    if limit is None:
        return ""
    said = []
    if limit.part is not None:
        said.append(f"{limit.part} of the budget")
    if limit.policy is not None:
        said.append("a budget of its own: " + _amounts(limit.budget))
    if limit.pace is not None:
        said.append(f"{limit.pace.part} of the budget in each {limit.pace.period}")
    if limit.reserved is not None:
        said.append(f"{limit.reserved.part} reserved")
    what = f", {', '.join(said)}" if said else ""
    return f": {whose(limit.scope, limit.name)}{what} (version {limit.version})"


def level_words(decision: Decision) -> list[str]:
    """Return which level has refused a request, and what is left at each, line by line."""
    lines = []
    level = decision.level
    if level is not None and level.what is not None:
        lines.append(_RUN_OUT[level.what].format(whose=whose(level.scope, level.name)))
    for each in decision.left_at or ():
        left = [
            f"{what} {_amounts(amounts)}"
            for what, amounts in (("left", each.left), ("left in the period", each.pace_left))
            if amounts is not None
        ]
        lines.append(f"{whose(each.scope, each.name)}: {', '.join(left)}")
    return lines


def _amounts(amounts: Texts | None) -> str:
    return ", ".join(f"{name} {text}" for name, text in (amounts or {}).items())
