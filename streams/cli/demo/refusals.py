"""Describes refusals of the demo for want of budget: the limit, the cost, and what would fit."""

from __future__ import annotations

from accountant.display.limits import scope_words
from accountant.display.numbers import exact_percent, remaining_amount, spent_amount, symbol
from accountant.display.refusals import when_more
from accountant.display.requested import fitting_words
from accountant.display.times import each_period
from accountant.records import Decision
from accountant.records.limit_records import LimitRemaining
from streams.cli.demo.replay import DecidedRequest
from streams.cli.demo.teams import DIVISIONS, Division

OWN = "dataset"
"""The dataset's own budget, where no limit is the cause."""


def refused_by(decision: Decision) -> str:
    """Return which limit was used up, such as `team/limit`; `OWN` for the dataset's own budget."""
    level = decision.level
    return OWN if level is None else f"{level.scope}/{level.what}"


def budget_ran_out(decided: DecidedRequest) -> list[str]:
    """Return the lines on a request that a dataset's own budget refuses."""
    ask, decision = decided
    return [
        f"{_when(decided)}  {ask.analyst} asks {ask.dataset} for the {ask.question}.",
        f"           {_cost_and_left(decision)}: refused.",
        f"           {fitting_words(decision)} would still fit.",
    ]


def refused_by_limit(decided: DecidedRequest) -> str:
    """Return the line on a request that a limit refuses."""
    ask, decision = decided
    more = when_more(decision)
    until = "" if more is None or more.at is None else f" (until {more.at[:10]})"
    return f"{_when(decided)}  {ask.analyst} on {ask.dataset}: {_limit_words(decided)}{until}"


def would_fit(decision: Decision) -> str:
    """Return the largest claim that all limits would have admitted."""
    return f"would fit: {fitting_words(decision)}"


def _when(decided: DecidedRequest) -> str:
    return decided.ask.purpose[:9]  # `Mon 09:12`


def _limit_words(decided: DecidedRequest) -> str:
    """Return what the limit that refused a request allows."""
    level = decided.decision.level
    if level is None or level.what is None:
        return "the budget is used up"
    division = _division(decided.ask.dataset, level.what, level.name)
    if division is None:
        return f"the {level.what} of {scope_words(level.scope, level.name)} is used up"
    holder = scope_words(division.scope, division.name)
    if level.what == "reserved":
        return f"{exact_percent(division.reserved or '0')} is reserved for {holder}"
    if division.pace is not None:
        part, period = division.pace
        return f"{holder} may use {exact_percent(part)} {each_period(period)}"
    return f"{holder} may use {exact_percent(division.part or '0')}"


def _division(dataset: str, what: str, name: str | None) -> Division | None:
    field = {"limit": "part", "pace": "pace", "reserved": "reserved"}[what]
    for each in DIVISIONS:
        same = each.dataset == dataset and (what == "reserved" or each.name == name)
        if same and getattr(each, field) is not None:
            return each
    return None


def _cost_and_left(decision: Decision) -> str:
    """Return the cost of a request and what was left for it, in the first sum; "" if unknown."""
    level, at = decision.level, _at(decision)
    left, asked = decision.left or {}, decision.asked or {}
    if level is not None and at is not None:
        left = (at.pace_left if level.what == "pace" else at.left) or {}
    name = next(iter(left), None)
    if name is None or name not in asked:
        return ""
    spent, rest = spent_amount(asked[name]), remaining_amount(left[name])
    return f"It costs {symbol(name)} {spent}, and {rest} is left"


def _at(decision: Decision) -> LimitRemaining | None:
    """Return what was left at the limit that refused a request."""
    level = decision.level
    for each in decision.left_at:
        if level is not None and (each.scope, each.name) == (level.scope, level.name):
            return each
    return None
