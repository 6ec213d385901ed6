"""The levels of an accuracy-first answer: falling variances or scales, and what each costs."""

from __future__ import annotations

from accountant.questions.accuracy_first import Level
from accountant.questions.draw import Draw
from accountant.questions.laws import LAWS, SessionLaw


def session_law(draw: Draw) -> SessionLaw:
    """Return the law of a session.

    Raises: ValueError: the draw is no session.
    """
    law = LAWS.get(draw.law)
    if not isinstance(law, SessionLaw):
        raise ValueError(f"{draw.law} shows one answer: it has no levels")
    return law


def levels_of(draw: Draw) -> tuple[Level, ...]:
    """Return a session's levels, from the first to the finest, each half of the one before.

    Returns: 1 to 64 levels.
    Raises: ValueError: the draw is no session.
    """
    return session_law(draw).levels(draw.claim, draw.unit)
