"""Bars: how much of each limit, period limit and reserved share is used."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from accountant.display.limits import (
    SEE_EACH,
    SEPARATELY,
    Whole,
    budget_words,
    end_words,
    is_default,
    period_limit_words,
    scope_words,
    share_words,
)
from accountant.display.numbers import (
    Amount,
    Tone,
    counting_amounts,
    nonzero_amounts,
    part_of,
    remaining_amounts,
    spent_amount,
    spent_amounts,
    symbol,
    tone,
)
from accountant.display.spending import ratio_for_good, settled_amount, spending
from accountant.display.teams import notes_of_limit
from accountant.display.times import time_until
from accountant.records.limit_records import Scope, Texts
from accountant.records.members import Member
from accountant.views.limit_views import PeriodLimitView, ScopeView, ShareView


class Bar(NamedTuple):
    """How much of a budget is used.

    Attributes:
        width: the used percentage; at least 0.5 if anything is used.
        reserved_width: the percentage that open reservations hold, next to it.
        used, left: percentages; used is rounded up, left down.
        reserved: the percentage that open reservations hold; "" for nothing.
        tone: `near` from 80 % on, `full` if nothing is left. The colour only repeats `used`.
    """

    width: float
    used: str
    left: str
    tone: Tone
    reserved_width: float = 0.0
    reserved: str = ""


class LimitBar(NamedTuple):
    """A limit in total, or within a period.

    Attributes:
        said: as the owner set it, such as `20 % of the budget`.
        bar: None for a default, which nobody uses directly.
    """

    said: str
    bar: Bar | None
    used: tuple[Amount, ...]
    left: tuple[Amount, ...]


class PeriodLimitBar(NamedTuple):
    """A period limit.

    Attributes:
        ends: when the next period begins, in the log's format. `in_words`: in how long.
    """

    limit: LimitBar
    ends: str
    in_words: str


class ShareBar(NamedTuple):
    """A reserved share, which nobody else may use.

    Attributes:
        said: the part, and the share that it lies in. `left`: what is still reserved.
    """

    said: str
    bar: Bar
    left: tuple[Amount, ...]


class ScopeBars(NamedTuple):
    """A limit in force.

    Attributes:
        whose: its scope in words; `about`: a remark.
    """

    scope: Scope
    name: str
    whose: str
    about: str
    version: int
    limit: LimitBar | None
    pace: PeriodLimitBar | None
    share: ShareBar | None


def bar_of(ratio: float | Decimal, reserved: float | None = None) -> Bar:
    """Return the bar of a used part, in [0, 1].

    Args:
        ratio: the part that is used or reserved.
        reserved: the part that open reservations hold.
    """
    found, settled = spending(ratio, reserved), ratio_for_good(ratio, reserved)
    return Bar(
        _width(settled), found.spent, found.left, tone(ratio), _width(reserved), found.reserved
    )


def _width(part: float | Decimal | None) -> float:
    return round(max(0.5, 100 * float(part)), 2) if part else 0.0


def scopes_of(
    views: Sequence[ScopeView], now: int, members: Sequence[Member] = (), *, whole: Whole = "budget"
) -> tuple[ScopeBars, ...]:
    """Return the bars of limits, in their order.

    Args:
        now: milliseconds since 1970.
        members: all of the dataset, to remark that nobody is in a team; none if they are not known.
        whole: what the limits are parts of.
    """
    return tuple(_level(view, now, members, views, whole) for view in views)


def first_of(texts: Texts) -> str:
    """Return the amount in the additive sum, which comes first."""
    return next(iter(texts.values()), "0")


def _level(
    view: ScopeView,
    now: int,
    members: Sequence[Member],
    views: Sequence[ScopeView],
    whole: Whole,
) -> ScopeBars:
    team = next((each.team for each in members if each.member == view.name), None)
    end = end_words(view, views, team)
    notes = [_about(view), end, *_nobody(view, members), _others(view, views, members)]
    return ScopeBars(
        scope=view.scope,
        name=view.name or "",
        whose=scope_words(view.scope, view.name),
        about="; ".join(filter(None, notes)),
        version=view.version,
        limit=_limit(view, whole),
        pace=None
        if view.pace is None
        else _pace(view.pace, now, has_usage=not is_default(view), whole=whole),
        share=None if view.reserved is None else _share(view.reserved, whole),
    )


def _nobody(view: ScopeView, members: Sequence[Member]) -> list[str]:
    """Return that a limit is of a team without members: its name may be misspelt."""
    is_of_team = view.scope in {"team", "each"} and view.name is not None
    return notes_of_limit(members, str(view.name)) if is_of_team else []


def _others(view: ScopeView, views: Sequence[ScopeView], members: Sequence[Member]) -> str:
    """Return what of a team's use no line of an analyst shows, so that the lines add up to it.

    Who was removed has used it all the same. "" where no analyst of the team has a line.
    """
    if view.scope != "team" or not view.used:
        return ""
    name, total = next(iter(view.used.items()))
    crew = {each.member for each in members if each.team == view.name}
    own = [each for each in views if each.scope == "analyst" and each.name in crew]
    lines = [*own, *(each for each in views if each.analyst in crew)]
    shown = {each.analyst or each.name for each in lines}
    analysts = {each.member for each in members if each.member in crew and "analyst" in each.roles}
    used = [each.used or {} for each in lines]
    if (analysts and not lines) or any(name not in each for each in used):
        return ""
    rest = Decimal(total) - sum(Decimal(each[name]) for each in used)
    if not rest.is_finite() or rest <= 0:
        return ""
    others = "" if analysts <= shown else ", or by analysts without a limit of their own"
    amount = f"{symbol(name)} {spent_amount(rest)}"
    return f"{amount} of what is used is by former members, or from before a limit was set{others}"


def _about(view: ScopeView) -> str:
    if is_default(view):
        return f"{SEPARATELY}; {SEE_EACH[:-1]}"
    return "" if view.analyst is None else f"as used by {view.analyst}"


def _limit(view: ScopeView, whole: Whole) -> LimitBar | None:
    if view.budget is None:
        return None
    bar = None if view.spent_ratio is None else bar_of(view.spent_ratio, view.held_ratio)
    left = counting_amounts(view.left, budget=view.budget)
    held = view.held or {}
    used = {
        name: settled_amount(text, held.get(name, "0"))
        for name, text in (view.used or {}).items()
        if name in left
    }
    shown = nonzero_amounts(spent_amounts(used))
    return LimitBar(budget_words(view, whole), bar, shown, remaining_amounts(left))


def _pace(view: PeriodLimitView, now: int, *, has_usage: bool, whole: Whole) -> PeriodLimitBar:
    bar = bar_of(view.spent_ratio, view.held_ratio) if has_usage else None
    left = remaining_amounts(counting_amounts(view.left, budget=view.budget))
    limit = LimitBar(period_limit_words(view, whole), bar, spent_amounts(view.used), left)
    return PeriodLimitBar(limit, view.ends_at, time_until(view.ends_at, now))


def _share(view: ShareView, whole: Whole) -> ShareBar:
    left, most = Decimal(first_of(view.left)), Decimal(first_of(view.budget))
    used = most - left if left.is_finite() and most.is_finite() else most
    # A fully used share is normal: no warning colour.
    bar = bar_of(part_of(used, most))._replace(tone="calm")
    reserved = remaining_amounts(counting_amounts(view.left, budget=view.budget))
    return ShareBar(share_words(view, whole), bar, reserved)
