"""Rows of open reservations on a dataset's page."""

from __future__ import annotations

from typing import NamedTuple

from accountant.claims.text import claim_text
from accountant.display.reservations import (
    SHORT_GRANT,
    held_words,
    may_void,
    reservation_state_words,
)
from accountant.display.texts import shorten
from accountant.views.reservations import ReservationView


class OpenReservationRow(NamedTuple):
    """An open reservation.

    Attributes:
        short: the first digits of the grant.
        may_void: it never began, so an owner may void it.
    """

    grant: str
    short: str
    analyst: str
    via: str
    claim: str
    purpose: str
    holds: str
    state: str
    until: str
    deadline_passed: bool
    may_void: bool


def reservation_row(view: ReservationView) -> OpenReservationRow:
    """Return the row of a reservation."""
    return OpenReservationRow(
        grant=view.grant,
        short=view.grant[:SHORT_GRANT],
        analyst=view.analyst,
        via=view.via or "",
        claim=shorten(claim_text(view.claim)),
        purpose=view.purpose,
        holds=held_words(view),
        state=reservation_state_words(view),
        until=view.until,
        deadline_passed=view.deadline_passed,
        may_void=may_void(view),
    )
