"""Levels as decisions tell of them; nothing is computed again."""

from __future__ import annotations

from accountant.ledger.levels.level import (
    Count,
    Level,
    Paced,
    amounts_from,
    unused_of,
)
from accountant.records.limits.limits import LevelMoved


def level_after_grant(
    level: Level, limit: Level, moved: LevelMoved, sequence: int, resets: int
) -> Level:
    """Return a level as a grant has left it.

    Args:
        level: before the grant.
        limit: the level that has the limit: of an analyst under a default, the team's.
        sequence: number of the decision in its dataset.
        resets: how often the partition's clock had been set back.
    Raises: ValueError: an amount is none.
    """
    rule = limit.rule
    assert rule is not None
    counted, paced, used = level.counted, level.paced, level.used
    if moved.totals is not None:
        amounts = amounts_from(moved.totals, moved.rounded_up)
        counted = Count(rule.counted_since, tuple(moved.totals), amounts)
    if moved.paced is not None and moved.window is not None and rule.periods is not None:
        amounts = amounts_from(moved.paced, moved.paced_rounded_up)
        begins_at = rule.periods.begin(moved.window)
        paced = Paced(begins_at, tuple(moved.paced), amounts, resets)
    if moved.used is not None:
        amounts = amounts_from(moved.used, moved.used_rounded_up)
        used = Count(rule.shared_since, tuple(moved.used), amounts)
    return level.moved(sequence, counted, paced, used, unused_of(level.rule, used))
