"""Bars: how much of each limit, period limit and reserved share is used."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from accountant.display.limits import (
    SEE_EACH,
    SEPARATELY,
    budget_words,
    is_default,
    pace_words,
    scope_words,
    share_words,
)
from accountant.display.numbers import (
    Amount,
    Tone,
    nonzero_amounts,
    part_of,
    remaining_amounts,
    spent_amounts,
    spent_percent,
    tone,
    unspent_percent,
)
from accountant.display.times import time_until
from accountant.limits.wire import Scope, Texts
from accountant.views.limit_views import LevelView, PaceView, ShareView


class Bar(NamedTuple):
    """How much of a budget is used.

    Attributes:
        width: the used percentage; at least 0.5 if anything is used.
        used, left: percentages; used is rounded up, left down.
        tone: `near` from 80 % on, `full` if nothing is left. The colour only repeats `used`.
    """

    width: float
    used: str
    left: str
    tone: Tone


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


class PaceBar(NamedTuple):
    """A period limit.

    Attributes:
        ends: when more is available, in the log's format. `in_words`: in how long.
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


class LevelBars(NamedTuple):
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
    pace: PaceBar | None
    share: ShareBar | None


def bar_of(ratio: float | Decimal) -> Bar:
    """Return the bar of a used part, in [0, 1]."""
    width = round(max(0.5, 100 * float(ratio)), 2) if ratio else 0.0
    return Bar(width, spent_percent(ratio), unspent_percent(ratio), tone(ratio))


def levels_of(views: Sequence[LevelView], now: int) -> tuple[LevelBars, ...]:
    """Return the bars of limits, in their order.

    Args:
        now: milliseconds since 1970.
    """
    return tuple(_level(view, now) for view in views)


def first_of(texts: Texts) -> str:
    """Return the amount in the additive sum, which comes first."""
    return next(iter(texts.values()), "0")


def _level(view: LevelView, now: int) -> LevelBars:
    return LevelBars(
        scope=view.scope,
        name=view.name or "",
        whose=scope_words(view.scope, view.name),
        about=_about(view),
        version=view.version,
        limit=_limit(view),
        pace=None if view.pace is None else _pace(view.pace, now, has_usage=not is_default(view)),
        share=None if view.reserved is None else _share(view.reserved),
    )


def _about(view: LevelView) -> str:
    if is_default(view):
        return f"{SEPARATELY}; {SEE_EACH[:-1]}"
    return "" if view.analyst is None else f"as used by {view.analyst}"


def _limit(view: LevelView) -> LimitBar | None:
    if view.budget is None:
        return None
    bar = None if view.spent_ratio is None else bar_of(view.spent_ratio)
    used = nonzero_amounts(spent_amounts(view.used))
    return LimitBar(budget_words(view), bar, used, remaining_amounts(view.left))


def _pace(view: PaceView, now: int, *, has_usage: bool) -> PaceBar:
    bar = bar_of(part_of(first_of(view.used), first_of(view.budget))) if has_usage else None
    limit = LimitBar(pace_words(view), bar, spent_amounts(view.used), remaining_amounts(view.left))
    return PaceBar(limit, view.ends_at, time_until(view.ends_at, now))


def _share(view: ShareView) -> ShareBar:
    left, whole = Decimal(first_of(view.left)), Decimal(first_of(view.budget))
    used = whole - left if left.is_finite() and whole.is_finite() else whole
    # A fully used share is normal: no warning colour.
    bar = bar_of(part_of(used, whole))._replace(tone="calm")
    return ShareBar(share_words(view), bar, remaining_amounts(view.left))
