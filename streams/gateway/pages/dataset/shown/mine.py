"""What one analyst may still use, in a sentence and in bars."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from accountant.advice.room import Room, tightest
from accountant.views.levels import AnalystBudget, LevelView
from streams.gateway.pages.dataset.shown.bars import Level, levels_of
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


def mine(budget: AnalystBudget, state: State, now: int) -> Mine:
    """Return what an analyst may still use.

    Args:
        now: milliseconds since 1970.
    """
    name, whole = next(iter(budget.budget.items()))
    found, is_over = tightest(budget), state in {"closed", "halted"}
    left = Decimal(0) if is_over else found.left
    more_at = None if is_over else found.more_at
    return Mine(
        analyst=budget.analyst,
        team_name=budget.team or "",
        percent=left_percent(part_of(f"{left:f}", whole)),
        amount=f"{symbol(name)} {short(f'{left:f}', up=False)}",
        by=f"nothing more is granted: the dataset is {state}" if is_over else _by(found.room),
        own=tuple(_own(level) for level in budget.levels if _is_own(level, name)),
        team=_team(budget, name, whole),
        more_at=None if more_at is None else moment(more_at),
        more_in="" if more_at is None else from_now(more_at, now),
        levels=levels_of(budget.levels, now),
    )


def _by(room: Room) -> str:
    if room.level is None:
        return "what is left of the dataset, and not reserved for others"
    return f"the {room.what} of {_who(room.level)}"


def _who(level: LevelView) -> str:
    if level.scope == "each":
        return f"each analyst of team {level.name}"
    return whose(level.scope, level.name, inside=True)


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
