"""Pauses of persons and teams for people."""

from __future__ import annotations

from accountant.display.reasons import OWNER
from accountant.display.times import moment
from accountant.foreign_text import escape_text
from accountant.records.person_pauses import PersonPause


def paused_name(pause: PersonPause) -> str:
    """Return who is paused: `ana`, or `team blue`."""
    return pause.member or f"team {pause.team}"


def since_words(pause: PersonPause) -> str:
    """Return who has paused somebody, when, and why: `by olga at 2026-11-21 12:00 UTC: why`."""
    role = ", as administrator" if pause.administrator else ""
    return f"by {pause.by}{role} at {moment(pause.since)}: {escape_text(pause.reason)}"


def person_pause_words(pause: PersonPause) -> str:
    """Return a pause in a few words: `ana, by olga at 2026-11-21 12:00 UTC: why`."""
    return f"{paused_name(pause)}, {since_words(pause)}"


def person_pauser_words(pause: PersonPause) -> str:
    """Return who can say when a pause ends: `an owner (olga)`, or an administrator."""
    return f"{'an administrator' if pause.administrator else OWNER} ({pause.by})"


def person_sentence(pause: PersonPause, *, ended: bool) -> str:
    """Return what an owner has said of a pause, without a full stop."""
    return f"{paused_name(pause)} is {'not paused any more' if ended else 'paused'}"


def resume_words(pause: PersonPause, dataset: str, by: str = "") -> str:
    """Return the command that ends a pause.

    Args:
        by: the end of an owner's command, see `by_option`.
    """
    target = pause.member or f"--team {pause.team}"
    return f"accountant member resume {dataset} {target}{by}"
