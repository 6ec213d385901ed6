"""Reservations for people: their state, what they hold, and what a step of one has done."""

from __future__ import annotations

from typing import Final

from accountant.display.numbers import line, nonzero_amounts, spent_amounts, spent_line
from accountant.display.times import moment
from accountant.records import Decision
from accountant.records.outcomes import Outcome
from accountant.views.reservations import ReservationState, ReservationView

STATES: Final[dict[ReservationState, str]] = {
    "reserved": "reserved",
    "begun": "begun",
    "lapsed": "lapsed, never began: it may still be voided",
    "lapsed_after_begin": "lapsed after its begin: charged in full",
    "broken": "released beyond its maximum: an owner has to resolve it",
}
"""What the state of a reservation means."""
SHORT_GRANT: Final = len("sha256:") + 12
"""Characters of a grant that commands print and take."""


def reservation_state_words(view: ReservationView) -> str:
    """Return a reservation's state in words."""
    shown = "" if view.shown is None else f" (it showed {view.shown})"
    return f"{STATES[view.state]}{shown}"


def deadline_words(view: ReservationView) -> str:
    """Return a reservation's deadline, and whether the answering clock has passed it."""
    until = moment(view.until)
    # The log's clock moves with decisions alone, so it may be behind.
    return f"{until}, passed" if view.deadline_passed else until


def held_words(view: ReservationView) -> str:
    """Return what a reservation holds: `ε 0.1`."""
    return spent_line(view.held)


def may_void(view: ReservationView) -> bool:
    """Tell whether a reservation may be voided: it never began."""
    return view.state in {"reserved", "lapsed"}


def step_words(decision: Decision) -> str:
    """Return what a step of a reservation has done, without a full stop; "" for another outcome."""
    update, outcome = decision.reservation, decision.outcome
    if update is None:
        return ""
    if outcome.reserves:
        until = moment(update.until)
        return f"begin before {until}, and run the mechanism only after that"
    if outcome is Outcome.BEGUN:
        return f"the mechanism may run now; settle before {moment(update.until)}"
    if outcome is Outcome.RESOLVED:
        return f"the reservation of {update.analyst} is resolved"
    if not outcome.is_step:
        return ""
    what = "voided" if outcome is Outcome.VOIDED else "settled"
    back = line(nonzero_amounts(spent_amounts(update.returned)))
    returned = f"{back} is left again" if back else "its whole maximum stays charged"
    return f"the reservation of {update.analyst} is {what}: {returned}"
