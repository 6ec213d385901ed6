"""Limits for people: their scope, what they allow, and what is left at each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol

from accountant.display.numbers import Texts, counting_line, exact_percent, tone
from accountant.display.times import each_period, moment
from accountant.filters.base import DELTAS
from accountant.records.limit_records import (
    LimitRecord,
    LimitRemaining,
    PeriodLimitRecord,
    ReservedRecord,
    Scope,
)
from accountant.views.limit_views import PeriodLimitView, ScopeView, ShareView

Whole = Literal["budget", "ceiling"]
"""What limits are parts of."""

_SCOPE_WORDS: Final[dict[Scope, str]] = {
    "dataset": "the whole dataset",
    "team": "team {name}",
    "analyst": "analyst {name}",
    "each": "each analyst of team {name}",
}


def scope_words(scope: Scope, name: str | None) -> str:
    """Return the scope of a limit in words: `team red`."""
    return _SCOPE_WORDS[scope].format(name=name)


def used_ratio(limit: ScopeView) -> float:
    """Return which part of a limit is used: in all, or in the current period where that is more."""
    period = 0.0 if limit.pace is None else limit.pace.spent_ratio
    return max(limit.spent_ratio or 0.0, period)


def by_use(limits: Iterable[ScopeView]) -> list[ScopeView]:
    """Return limits, those with the least left first."""
    return sorted(limits, key=used_ratio, reverse=True)


def near_limits(limits: Iterable[ScopeView]) -> list[ScopeView]:
    """Return the limits that are nearly or wholly used, those with the least left first."""
    return [each for each in by_use(limits) if tone(used_ratio(each)) != "calm"]


class BudgetBelow(Protocol):
    """A dataset's budget, in whichever view.

    Attributes:
        ceiling: what each sum may reach under the policy, empty where all of it is in force.
        budget: what it may reach now.
    """

    @property
    def ceiling(self) -> Texts: ...

    @property
    def budget(self) -> Texts: ...


def whole_of_limits(view: BudgetBelow | None) -> Whole:
    """Return what limits are parts of: the ceiling where it is above the budget in force.

    Args:
        view: None where it cannot be read.
    """
    is_below = view is not None and view.ceiling and view.ceiling != view.budget
    return "ceiling" if is_below else "budget"


def part_words(part: str, amounts: Texts, whole: Whole) -> str:
    """Return a limit's part: `20 % of the budget`, or `20 % of the ceiling (ε 0.6)`.

    Beside a ceiling stand other percentages, which are of the budget in force.

    Args:
        amounts: what the part comes to.
    """
    beside = f" ({counting_line(amounts, amounts)})" if whole == "ceiling" and amounts else ""
    return f"{exact_percent(part)} of the {whole}{beside}"


def budget_words(limit: LimitRecord | ScopeView, whole: Whole = "budget") -> str:
    """Return what may be used in all: `20 % of the budget`; "" where that is not limited.

    Args:
        whole: see `whole_of_limits`.
    """
    if limit.part is not None:
        return part_words(limit.part, limit.budget or {}, whole)
    if limit.policy is None:
        return ""
    return f"a budget of its own, {counting_line(limit.budget, limit.budget)}"


def period_limit_words(
    period_limit: PeriodLimitRecord | PeriodLimitView, whole: Whole = "budget"
) -> str:
    """Return what may be used in a period: `1 % of the budget each day`."""
    part = part_words(period_limit.part, period_limit.budget, whole)
    return f"{part} {each_period(period_limit.period)}"


def next_period(period_limit: PeriodLimitView) -> str:
    """Return when the next period begins; whether it helps, other limits decide as well."""
    return f"next period at {moment(period_limit.ends_at)}"


def end_words(limit: ScopeView | LimitRecord, limits: Iterable[ScopeView], team: str | None) -> str:
    """Return what follows the end of a limit, "" for one without an end.

    Args:
        limits: the dataset's.
        team: of the limit's analyst, where it is one's and that is known.
    """
    if limit.until is None:
        return ""
    if limit.scope == "analyst" and team is not None:
        own = (each for each in limits if (each.scope, each.name) == ("each", team))
        default = next(own, None)
        if default is not None and (default.until is None or default.until > limit.until):
            return f"from {moment(limit.until)} on the default of team {team} applies"
    return f"unlimited from {moment(limit.until)}"


def is_default(limit: ScopeView) -> bool:
    """Whether a limit is the default of a team's analysts: each of them has its own usage."""
    return limit.scope == "each" and limit.analyst is None


def ceiling_words(view: BudgetBelow) -> str:
    """Return of what limits are parts, "" where all of the budget is in force."""
    if whole_of_limits(view) == "budget":
        return ""
    ceiling, in_force = view.ceiling, view.budget
    return (
        f"parts of limits are parts of the ceiling, {counting_line(ceiling, ceiling)}, of which "
        f"{counting_line(in_force, in_force)} is in force"
    )


SEPARATELY: Final = "for each analyst separately"
"""How a default applies."""
SEE_EACH: Final = "`accountant mine --analyst NAME` shows what one analyst has used of it."
"""Where the usage under a default is."""


def share_words(share: ReservedRecord | ShareView, whole: Whole = "budget") -> str:
    """Return what nobody else may use: `10 % of the budget, within the share of team red`."""
    inside = "" if share.team is None else f", within the share of team {share.team}"
    is_cut = isinstance(share, ShareView) and share.cut is not None
    cut = ", cut by a release made elsewhere" if is_cut else ""
    return f"{part_words(share.part, share.budget, whole)}{inside}{cut}"


def limit_sentence(limit: LimitRecord, whole: Whole = "budget") -> str:
    """Return what an owner has set, without a full stop."""
    subject = scope_words(limit.scope, limit.name)
    parts = []
    if allowed := budget_words(limit, whole):
        parts.append(f"may use {allowed}")
    if limit.pace is not None:
        parts.append(f"may use {period_limit_words(limit.pace, whole)}")
    if limit.reserved is not None:
        parts.append(f"has {share_words(limit.reserved, whole)} reserved")
    end = "" if limit.until is None else f", until {moment(limit.until)}"
    return f"{subject} {', '.join(parts)}{end}" if parts else f"{subject} has no limit any more"


def left_at_words(
    left_at: Iterable[LimitRemaining], left: Texts | None, asked: Texts | None = None
) -> tuple[str, ...]:
    """Return what was left at each level, a line each.

    Args:
        left: of the dataset, where nothing is reserved for others.
        asked: the cost of the request; a delta that it does not move is not shown as 0.
    """
    return tuple(_left_at(each, left, asked or {}) for each in left_at)


def _left_at(each: LimitRemaining, left: Texts | None, asked: Texts) -> str:
    parts = []
    if each.left is not None:
        reserves = each.scope == "dataset" and each.left != left
        beside = " and not reserved for others" if reserves else ""
        beside = beside if each.scope == "dataset" else " of the limit"
        parts.append(f"{_moved_line(each.left, asked)} left{beside}")
    if each.pace_left is not None:
        parts.append(f"{_moved_line(each.pace_left, asked)} left in this period")
    if each.until is not None:
        parts.append(f"until {moment(each.until)}")
    return f"{scope_words(each.scope, each.name)}: {', '.join(parts)}"


def _moved_line(left: Texts, asked: Texts) -> str:
    unmoved = {
        name: "0"
        for name, text in left.items()
        if name in DELTAS and text == "0" and asked.get(name, "0") == "0"
    }
    return counting_line(left, unmoved)
