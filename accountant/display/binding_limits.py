"""The limits that have too little left for a refused request, and what each of them allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from accountant.advice.preview import Preview
from accountant.display.limits import Whole, budget_words, period_limit_words, scope_words
from accountant.display.numbers import (
    Texts,
    counting_amounts,
    exact_percent,
    part_of,
    remaining_amount,
    spent_amount,
    spent_percent,
    sufficient_sums,
    symbol,
)
from accountant.display.times import moment
from accountant.filters.base import DELTAS
from accountant.records import Decision
from accountant.records.limit_records import LimitName, LimitRemaining, What
from accountant.views.limit_views import ScopeView

_TOO_LITTLE: Final[dict[What, str]] = {
    "limit": "The limit of {scope} has too little left.",
    "pace": "The period limit of {scope} has too little left in this period.",
    "reserved": "The rest of the budget is reserved for others.",
}


class BindingLimit(NamedTuple):
    """A limit that has too little left for a request.

    Attributes:
        level, what: the limit.
        left: what it had left, by sum; empty if the decision does not say.
        more_at: when a period limit resets, None if a whole period is too small, or it ends first.
        until: when the limit ends, None for never.
    """

    level: LimitName
    what: What
    left: Texts
    more_at: str | None
    until: str | None = None

    @property
    def sentence(self) -> str:
        """What has too little left."""
        return _TOO_LITTLE[self.what].format(scope=scope_words(self.level.scope, self.level.name))


def binding_limits(refused: Decision | Preview) -> list[BindingLimit]:
    """Return the limits that have too little left, the one that the decision names first.

    A decision names one limit. Others bind as well where they have less left than it asks for.
    """
    named, asked = refused.level, refused.asked or {}
    found = [each for level in refused.left_at for each in _limits_of(level)]
    first = [each for each in found if named is not None and _is(each, named)]
    if named is not None and named.what is not None and not first:
        first = [BindingLimit(named, named.what, {}, None)]
    others = [each for each in found if each not in first and short_sum(asked, each.left)]
    return first + others


def _limits_of(level: LimitRemaining) -> Iterable[BindingLimit]:
    named = LimitName(level.scope, level.name)
    if level.left is not None:
        what: What = "reserved" if level.scope == "dataset" else "limit"
        until = None if what == "reserved" else level.until
        yield BindingLimit(named, what, level.left, None, until)
    if level.pace_left is not None or level.more_at is not None:
        yield BindingLimit(named, "pace", level.pace_left or {}, level.more_at, level.until)


def _is(limit: BindingLimit, named: LimitName) -> bool:
    level = limit.level
    return (level.scope, level.name, limit.what) == (named.scope, named.name, named.what)


def short_sum(asked: Texts, left: Texts) -> str | None:
    """Return the sum of which a request asks for more than is left, None where it fits."""
    names = [name for name in counting_amounts(left) if name in asked]
    over = [name for name in names if Decimal(asked[name]) > Decimal(left[name])]
    if any(name in DELTAS for name in over):
        return next(name for name in over if name in DELTAS)
    if any(not set(over).intersection(group) for group in sufficient_sums(names)):
        return None
    # A sum with something left says more than one with nothing.
    return next((name for name in over if Decimal(left[name])), next(iter(over), None))


def cost_and_left(asked: Texts, left: Texts, *, cost: bool = True) -> str:
    """Return what a request costs and what is left, of one sum; "" if it is not known.

    Args:
        cost: False for what is left alone.
    """
    name = short_sum(asked, left)
    if name is None:
        return ""
    rest = f"{remaining_amount(left[name])} is left"
    if not cost:
        return f"{symbol(name)} {rest}"
    return f"the request costs {symbol(name)} {spent_amount(asked[name])}, and {rest}"


def binding_words(
    refused: Decision | Preview,
    levels: Sequence[ScopeView] = (),
    *,
    amounts: bool = True,
    whole: Whole = "budget",
) -> str:
    """Return which limits have too little left, what each allows, and what is used.

    "" if no limit binds.

    Args:
        levels: the limits of the request's analyst, where the reader may see them.
        amounts: also say what the request costs and what is left.
        whole: what limits are parts of, see `whole_of_limits`.
    """
    asked, said = refused.asked or {}, list[str]()
    for i, each in enumerate(binding_limits(refused)):
        is_first = not i and refused.level is not None
        sentence = each.sentence if is_first else f"{each.sentence[:-1]}, too."
        if amounts and (costs := cost_and_left(asked, each.left, cost=is_first)):
            sentence = f"{sentence[:-1]}: {costs}."
        said += [sentence, *_allowed(each, levels, whole)]
    return " ".join(said)


def _allowed(limit: BindingLimit, levels: Sequence[ScopeView], whole: Whole) -> list[str]:
    """Return what a limit allows and how much of it is used, as its owner set it."""
    place = limit.level.scope, limit.level.name
    view = next((each for each in levels if (each.scope, each.name) == place), None)
    ends_at = limit.more_at
    if view is None or limit.what == "reserved":
        parts = []
    elif limit.what == "pace":
        pace = view.pace
        if pace is None:
            return []
        ends_at = pace.ends_at
        parts = [f"It allows {period_limit_words(pace, whole)}"]
        parts += _used(pace.budget, limit.left, pace.part, pace.used, whole)
    else:
        parts = [f"It allows {budget_words(view, whole)}"]
        parts += _used(view.budget or {}, limit.left, view.part, view.used, whole)
    if limit.what == "pace" and ends_at is not None:
        parts.append(f"{'the' if parts else 'The'} period ends at {moment(ends_at)}")
    return [f"{'; '.join(parts)}."] if parts else []


def _used(
    budget: Texts, left: Texts, part: str | None, now: Texts | None, whole: Whole
) -> list[str]:
    """Return how much of the dataset's budget is used under a limit; of its own budget, of that.

    Args:
        now: what is used, by sum: more than the budget, where the limit was lowered since.
    """
    name = next((name for name in budget if name in left), None)
    if name is None or Decimal(left[name]) > Decimal(budget[name]):
        return []
    used = Decimal(budget[name]) - Decimal(left[name])
    if not Decimal(left[name]) and now is not None and name in now:
        used = max(used, Decimal(now[name]))
    if part is None:
        return [f"{symbol(name)} {spent_amount(used)} is used"]
    percent = spent_percent(part_of(used * Decimal(part), budget[name]))
    almost = "almost " if percent == exact_percent(part) else ""  # the part was rounded up
    of_whole = " of the ceiling" if whole == "ceiling" else ""
    return [f"{almost}{percent}{of_whole} is used"]
