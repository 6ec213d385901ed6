"""What of an analyst's limits is tightest, and when waiting gives more."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal, NamedTuple

from accountant.views.limit_views import AnalystBudget, LevelView


class LimitRoom(NamedTuple):
    """What one level leaves in the dataset's additive sum.

    Attributes:
        what: by the dataset itself, by a limit, or by a pace.
        level: None of the dataset.
        ends_at: when a period ends of which something is used; None where waiting gives nothing.
    """

    left: Decimal
    what: Literal["dataset", "limit", "pace"]
    level: LevelView | None = None
    ends_at: str | None = None


class Tightest(NamedTuple):
    """What an analyst may still use in the dataset's additive sum.

    Attributes:
        room: what keeps it from being more.
        more_at: when the paces have begun anew that alone do so; None where waiting gives nothing.
    """

    unit: str
    left: Decimal
    room: LimitRoom
    more_at: str | None


def tightest(budget: AnalystBudget) -> Tightest:
    """Return what an analyst may still use, of levels that count in the dataset's own sum."""
    unit = next(iter(budget.budget))
    rooms = [LimitRoom(Decimal(budget.left[unit]), "dataset"), *_rooms(budget.levels, unit)]
    # Of two that leave the same, the one that no waiting changes is named.
    least = min(rooms, key=lambda room: (room.left, room.ends_at is not None))
    # All that are as empty as the emptiest must begin anew: the last one of them counts.
    ends = [room.ends_at for room in rooms if room.left <= least.left]
    known = [end for end in ends if end is not None]
    more_at = max(known) if len(known) == len(ends) else None
    return Tightest(unit, max(Decimal(0), least.left), least, more_at)


def _rooms(levels: Iterable[LevelView], unit: str) -> Iterable[LimitRoom]:
    for level in levels:
        if level.left is not None and unit in level.left:
            yield LimitRoom(Decimal(level.left[unit]), "limit", level)
        pace = level.pace
        if pace is not None:
            # Of a period that nobody has used, the next one is no better.
            ends_at = pace.ends_at if Decimal(pace.used[unit]) else None
            yield LimitRoom(Decimal(pace.left[unit]), "pace", level, ends_at)
