"""What one analyst may still use, in a sentence and in bars."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from accountant.views.levels import AnalystBudget, LevelView
from streams.gateway.pages.dataset.shown.bars import Level, first_of, levels_of
from streams.gateway.pages.dataset.shown.headline import State
from streams.gateway.pages.dataset.shown.words import (
    Moment,
    from_now,
    joined,
    left_percent,
    moment,
    part_of,
    short,
    symbol,
    whose,
)


class Mine(NamedTuple):
    """What an analyst is told first.

    Attributes:
        percent: of the dataset's budget that may still be used, "0 %" where nothing is granted.
        amount: the same in the additive sum. `by`: what keeps it from being more.
        own: for each limit with a budget of its own, what is left of it, in its own sum.
        team: what the team has left, "" without a team or a limit of it.
        more_at, more_in: when more comes, None where waiting brings nothing.
    """

    analyst: str
    team_name: str
    percent: str
    amount: str
    by: str
    own: tuple[str, ...]
    team: str
    more_at: Moment | None
    more_in: str
    levels: tuple[Level, ...]


class _Room(NamedTuple):
    """What one level leaves in the dataset's additive sum, and until when it holds."""

    left: Decimal
    by: str
    ends_at: str | None


def mine(budget: AnalystBudget, state: State, now: int) -> Mine:
    """Return what an analyst may still use.

    Args:
        now: milliseconds since 1970.
    """
    name, whole = next(iter(budget.budget.items()))
    rooms = _rooms(budget, name)
    # Of two that leave the same, the one that no waiting changes is named.
    least = min(rooms, key=lambda room: (room.left, room.ends_at is not None))
    is_over = state in {"closed", "halted"}
    left = Decimal(0) if is_over else max(Decimal(0), least.left)
    more_at = None if is_over else _more_at(rooms, least)
    return Mine(
        analyst=budget.analyst,
        team_name=budget.team or "",
        percent=left_percent(part_of(f"{left:f}", whole)),
        amount=f"{symbol(name)} {short(f'{left:f}', up=False)}",
        by=f"nothing more is granted: the dataset is {state}" if is_over else least.by,
        own=tuple(_own(level) for level in budget.levels if _is_own(level, name)),
        team=_team(budget, name, whole),
        more_at=None if more_at is None else moment(more_at),
        more_in="" if more_at is None else from_now(more_at, now),
        levels=levels_of(budget.levels, now),
    )


def _rooms(budget: AnalystBudget, name: str) -> list[_Room]:
    """Return what is left at the dataset and at each level that counts in the same sum."""
    kept = first_of(budget.left)
    rooms = [_Room(Decimal(kept), "what is left of the dataset, and not reserved for others", None)]
    for level in budget.levels:
        who = _who(level)
        if level.left is not None and name in level.left:
            rooms.append(_Room(Decimal(level.left[name]), f"the limit of {who}", None))
        if level.pace is not None:
            pace = level.pace
            # Of a period that nobody has used, the next one is no better.
            ends_at = pace.ends_at if Decimal(pace.used[name]) else None
            rooms.append(_Room(Decimal(pace.left[name]), f"the pace of {who}", ends_at))
    return rooms


def _who(level: LevelView) -> str:
    if level.scope == "each":
        return f"each analyst of team {level.name}"
    return whose(level.scope, level.name, inside=True)


def _more_at(rooms: list[_Room], least: _Room) -> str | None:
    """Return when the paces have begun anew that alone keep the analyst from more."""
    # All that are as empty as the emptiest must have: the last one of them counts.
    ends = [room.ends_at for room in rooms if room.left <= least.left]
    return max(end for end in ends if end is not None) if None not in ends else None


def _is_own(level: LevelView, name: str) -> bool:
    return level.left is not None and name not in level.left


def _own(level: LevelView) -> str:
    return f"of the budget of {_who(level)}, {joined(level.left, up=False)} is left"


def _team(budget: AnalystBudget, name: str, whole: str) -> str:
    for level in budget.levels:
        if level.scope != "team":
            continue
        if level.left is not None and name in level.left:
            percent = left_percent(part_of(level.left[name], whole))
            left = short(level.left[name], up=False)
            return f"{percent} of the budget ({symbol(name)} {left})"
        if level.left is not None:
            return joined(level.left, up=False)
    return ""
