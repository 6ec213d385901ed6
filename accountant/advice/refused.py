"""Why a request did not fit, and when more comes, in words."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accountant.advice.preview import Preview
    from accountant.limits.wire import Scope
    from accountant.records import Decision

_WHOSE: Final = {
    "dataset": "the whole dataset",
    "team": "team {name}",
    "analyst": "analyst {name}",
    "each": "each analyst of team {name}",
}
_RUN_OUT: Final = {
    "limit": "the limit of {whose} has no room",
    "pace": "the pace of {whose} has no room until its period ends",
    "reserved": "the rest of the budget is reserved for others",
}


def whose(scope: Scope, name: str | None) -> str:
    """Return whom a limit holds for."""
    return _WHOSE[scope].format(name=name)


def refused_at(decision: Decision | Preview) -> str:
    """Return which level has no room; "" where that is none, but the budget or something else."""
    level = decision.level
    if level is None or level.what is None:
        return ""
    return _RUN_OUT[level.what].format(whose=whose(level.scope, level.name))


def delta_words(asked: Mapping[str, str] | None, left: Mapping[str, str] | None) -> str:
    """Return what to do where a claim's delta is more than is left for claims, else ""."""
    delta, rest = (asked or {}).get("delta", "0"), (left or {}).get("delta")
    if rest is None or Decimal(delta) <= Decimal(rest):
        return ""
    kept = "nothing" if Decimal(rest) == 0 else f"{rest}"
    return (
        f"the claim has a delta of {delta}, and {kept} of the dataset's delta is left for claims: "
        "ask for one without a delta, such as pure, laplace or gaussian"
    )


def when_more(decision: Decision | Preview) -> str:
    """Return when more comes, or who could give more, of a request that did not fit."""
    level = decision.level
    if level is None:
        return "no more comes: a budget is never filled up again"
    if level.what == "pace":
        for each in decision.left_at:
            if (each.scope, each.name) == (level.scope, level.name) and each.more_at is not None:
                return f"more comes on {moment(each.more_at)}"
        return "no more comes: a whole period has no room for it either, ask for less at a time"
    if level.what == "reserved":
        return "more comes if the owner frees what is kept for others"
    return "more comes if the owner raises the limit"


def moment(at: str) -> str:
    """Return a time of the log to the minute, as `2026-12-01 10:00 UTC`."""
    return f"{at[:10]} {at[11:16]} UTC"
