"""Why a request of the demo was refused for want of room, in words."""

from __future__ import annotations

from accountant.advice.refused import when_more
from accountant.claims.text import claim_text
from accountant.limits.wire import LevelLeft
from accountant.records import Decision
from streams.cli.demo.replay import Decided
from streams.cli.demo.teams import TEAM_OF
from streams.cli.printing.limits import level_words
from streams.cli.printing.output import short

OWN = "dataset"
"""What is out of room where no level is."""


def refused_by(decision: Decision) -> str:
    """Return which level had no room, such as `team/limit`; `OWN` for the dataset's own budget."""
    level = decision.level
    return OWN if level is None else f"{level.scope}/{level.what}"


def in_words(decided: Decided) -> tuple[str, str]:
    """Return who was refused by what, and what would fit and when more comes."""
    ask, decision = decided
    who = f"{ask.analyst} of {TEAM_OF[ask.analyst]} asked {ask.dataset} {claim_text(ask.claim)}"
    return f"{who}: {why(decision)}", f"{would_fit(decision)}; {when_more(decision)}"


def why(decision: Decision) -> str:
    """Return which level has no room."""
    if decision.level is None:
        return "the dataset's own budget has no room"
    return level_words(decision)[0]


def would_fit(decision: Decision) -> str:
    """Return what would have fitted at all levels."""
    return f"would fit: {decision.fits or 'nothing of this kind'}"


def asked_and_left(decision: Decision) -> str:
    """Return what a request asked of its dataset's first sum, and what there was of it."""
    level, at = decision.level, _at(decision)
    left, asked = decision.left or {}, decision.asked or {}
    if level is not None and at is not None:
        left = (at.pace_left if level.what == "pace" else at.left) or {}
    name = next(iter(left), None)
    if name is None or name not in asked:
        return why(decision)
    return f"{why(decision)}: asked {name} {short(asked[name], 3)}, left {short(left[name], 3)}"


def _at(decision: Decision) -> LevelLeft | None:
    """Return what is told of the level that has refused."""
    level = decision.level
    for each in decision.left_at:
        if level is not None and (each.scope, each.name) == (level.scope, level.name):
            return each
    return None
