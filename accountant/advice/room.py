"""Which of an analyst's limits is tightest, and when waiting helps."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple

from accountant.filters.base import DELTAS
from accountant.records.limit_records import Texts
from accountant.views.limit_views import AnalystBudget, ScopeView


class LimitRoom(NamedTuple):
    """What one level leaves of the dataset's budget.

    Attributes:
        part: of the budget, in [0, 1].
        unit, left: the sum that decides the part, and what is left of it.
        what: the dataset itself, what is not reserved for others, a limit, or a period limit.
        level: None of the dataset.
        ends_at: the end of a period in which something was used; None where waiting does not help.
    """

    part: Fraction
    unit: str
    left: Decimal
    what: Literal["dataset", "reserved", "limit", "pace"]
    level: ScopeView | None = None
    ends_at: str | None = None


class Tightest(NamedTuple):
    """What an analyst may still use.

    Attributes:
        room: what keeps it from being more.
        more_at: when the period limits that alone are tight have reset; None where waiting does
            not help.
    """

    room: LimitRoom
    more_at: str | None


def tightest(budget: AnalystBudget) -> Tightest:
    """Return what an analyst may still use, of levels that count in the dataset's own sums."""
    rooms = [_of_dataset(budget), *limit_rooms(budget)]
    # On a tie, prefer the limit that never resets.
    tightest_room = min(rooms, key=lambda room: (room.part, room.ends_at is not None))
    # More is available once every equally tight period limit has reset: take the latest reset.
    ends = [room.ends_at for room in rooms if room.part <= tightest_room.part]
    known = [end for end in ends if end is not None]
    return Tightest(tightest_room, max(known) if len(known) == len(ends) else None)


def _of_dataset(budget: AnalystBudget) -> LimitRoom:
    unspent = 1 - Fraction(budget.spent_ratio)
    unit, left = _largest(budget.left, budget.budget)
    if len(_sums(budget.budget)) > 1:  # nothing can be reserved: the filter's own part is exact
        return LimitRoom(unspent, unit, left, "dataset")
    part = _part(left, budget.budget[unit])
    # The spent part is rounded up to a float.
    reserved = unspent - part > Fraction(1, 10**12)
    return LimitRoom(part, unit, left, "reserved" if reserved else "dataset")


def limit_rooms(budget: AnalystBudget) -> Iterable[LimitRoom]:
    """Yield what each limit leaves, of those that count in the dataset's own sums."""
    first = next(iter(budget.budget))
    single = len(_sums(budget.budget)) == 1
    for level in budget.levels:
        if level.left is not None and first in level.left:
            unit, left = _largest(level.left, budget.budget)
            if single or level.part is None:
                part = _part(left, budget.budget[unit])
            else:
                part = _in_force(level.part, unit, budget)
                part *= 1 - Fraction(level.spent_ratio or 0)
            yield LimitRoom(part, unit, left, "limit", level)
        period_limit = level.pace
        if period_limit is not None:
            unit, left = _largest(period_limit.left, budget.budget)
            if single:
                part = _part(left, budget.budget[unit])
            else:
                part = _in_force(period_limit.part, unit, budget)
                part *= 1 - Fraction(period_limit.spent_ratio)
            # An unused period has as much left as the next one.
            ends_at = period_limit.ends_at if period_limit.spent_ratio else None
            if level.until is not None and ends_at is not None and level.until <= ends_at:
                ends_at = None  # the limit ends first, and what follows it may allow less
            yield LimitRoom(part, unit, left, "pace", level, ends_at)


def _sums(budget: Texts) -> list[str]:
    """Return the sums that a filter's budget is counted in, without the deltas."""
    return [name for name in budget if name not in DELTAS]


def _largest(left: Texts, budget: Texts) -> tuple[str, Decimal]:
    """Return the sum of which the largest part is left, and what is left of it.

    Of two halves of a budget, and of several Renyi orders, the one with most left decides.
    """
    names = [name for name in _sums(budget) if name in left]
    unit = max(names, key=lambda name: _part(Decimal(left[name]), budget[name]))
    return unit, max(Decimal(0), Decimal(left[unit]))


def _in_force(part: str, unit: str, budget: AnalystBudget) -> Fraction:
    """Return a part of the ceiling as a part of the budget in force, at most 1."""
    ceiling = budget.ceiling.get(unit)
    if ceiling is None:
        return Fraction(part)
    return min(Fraction(1), Fraction(part) / _part(Decimal(budget.budget[unit]), ceiling))


def _part(left: Decimal, whole: str) -> Fraction:
    total = Decimal(whole)
    if not total or not total.is_finite() or not left.is_finite():
        return Fraction(1)
    return min(Fraction(1), max(Fraction(0), Fraction(left) / Fraction(total)))
