"""Which of an analyst's limits is tightest, and when waiting helps."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal, NamedTuple

from accountant.views.limit_views import AnalystBudget, LevelView


class LimitRoom(NamedTuple):
    """What one level leaves in the dataset's additive sum.

    Attributes:
        what: the dataset itself, a limit, or a period limit.
        level: None of the dataset.
        ends_at: the end of a period in which something was used; None where waiting does not help.
    """

    left: Decimal
    what: Literal["dataset", "limit", "pace"]
    level: LevelView | None = None
    ends_at: str | None = None


class Tightest(NamedTuple):
    """What an analyst may still use in the dataset's additive sum.

    Attributes:
        room: what keeps it from being more.
        more_at: when the period limits that alone are tight have reset; None where waiting does
            not help.
    """

    unit: str
    left: Decimal
    room: LimitRoom
    more_at: str | None


def tightest(budget: AnalystBudget) -> Tightest:
    """Return what an analyst may still use, of levels that count in the dataset's own sum."""
    unit = next(iter(budget.budget))
    rooms = [LimitRoom(Decimal(budget.left[unit]), "dataset"), *_rooms(budget.levels, unit)]
    # On a tie, prefer the limit that never resets.
    tightest_room = min(rooms, key=lambda room: (room.left, room.ends_at is not None))
    # More is available once every equally tight period limit has reset: take the latest reset.
    ends = [room.ends_at for room in rooms if room.left <= tightest_room.left]
    known = [end for end in ends if end is not None]
    more_at = max(known) if len(known) == len(ends) else None
    return Tightest(unit, max(Decimal(0), tightest_room.left), tightest_room, more_at)


def _rooms(levels: Iterable[LevelView], unit: str) -> Iterable[LimitRoom]:
    for level in levels:
        if level.left is not None and unit in level.left:
            yield LimitRoom(Decimal(level.left[unit]), "limit", level)
        period_limit = level.pace
        if period_limit is not None:
            # An unused period has as much left as the next one.
            ends_at = period_limit.ends_at if Decimal(period_limit.used[unit]) else None
            yield LimitRoom(Decimal(period_limit.left[unit]), "pace", level, ends_at)
