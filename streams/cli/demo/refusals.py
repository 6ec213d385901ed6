"""Why a request of the demo was refused for want of room, in words."""

from __future__ import annotations

from accountant.claims.text import claim_text
from accountant.display.refusals import refusal_words, when_more
from accountant.records import Decision
from streams.cli.demo.replay import Decided
from streams.cli.demo.teams import TEAM_OF

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
    more = when_more(decision)
    then = "" if more is None else f". {more.text}"
    return f"{who}: {refusal_words(decision, amounts=False)}", f"{would_fit(decision)}{then}"


def would_fit(decision: Decision) -> str:
    """Return what would have fitted at all levels."""
    return f"would fit: {decision.fits or 'nothing of this kind'}"


def asked_and_left(decision: Decision) -> str:
    """Return what a request would cost and what is left, of the limit that has refused it."""
    return refusal_words(decision)
