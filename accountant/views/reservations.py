"""Open reservations as people see them; nothing here decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from accountant.amounts import INFINITE
from accountant.claims import Claim
from accountant.field_rules import Amounts, Count, Grant, Name, NoiseAmount, Note, RequestId, Time
from accountant.limits.charge import LimitCharge
from accountant.limits.reserved_totals import Sums, plus
from accountant.limits.state import Key, texts_of
from accountant.reservations.reservation import NEVER, Reservation
from accountant.times import iso

ReservationState = Literal["reserved", "begun", "lapsed", "lapsed_after_begin", "broken"]
"""The state of an open reservation, by the log's clock; see docs/reference/reservations.md."""


class ReservationView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An open reservation.

    Attributes:
        grant: hash of the decision `reserved`, by which records name it.
        sequence: number of that decision in the dataset.
        request_id: of the request that reserved; left out where its decision is in an archive.
        analyst, via, purpose: the holder, the engine that asked for the holder, and what for.
        state: by the log's clock, which moves with decisions alone.
        until: its deadline. `deadline_passed`: by the clock of the process that answers.
        final_at: when it is charged for ever; left out of a broken one, which an owner resolves.
        held: what it holds of each total.
        shown: of a broken one, the level that it showed, where that decision is at hand.
        is_question: a curator runs a question, and alone begins and settles; left out of others.
    """

    dataset: Name
    grant: Grant
    sequence: Count
    request_id: RequestId | None = None
    analyst: Name
    via: Name | None = None
    purpose: Note = ""
    claim: Claim
    state: ReservationState
    reserved_at: Time
    until: Time
    deadline_passed: bool
    final_at: Time | None = None
    held: Amounts
    shown: NoiseAmount | None = None
    is_question: bool = False


class ReservationPage(msgspec.Struct, frozen=True):
    """A page of open reservations, in the order of their decisions.

    Attributes:
        next: the next page's `after`; the same as this page's where there are no more.
    """

    reservations: tuple[ReservationView, ...]
    next: Count


decode_reservation_page = msgspec.json.Decoder(ReservationPage).decode


class OpenReservations(NamedTuple):
    """A dataset's open reservations at one moment.

    Attributes:
        rows: in the order of their decisions.
        at: the time of the log, milliseconds since 1970.
    """

    rows: Sequence[Reservation]
    at: int


def reservation_view(
    reservation: Reservation, *, at: int, now: int, request_id: str | None, shown: str | None
) -> ReservationView:
    """Return an open reservation as people see it.

    Args:
        at: the time of the log, milliseconds since 1970.
        now: by the clock of this process.
    """
    held, _ = texts_of(reservation.sums, reservation.held)
    return ReservationView(
        dataset=reservation.dataset,
        grant=reservation.grant,
        sequence=reservation.sequence,
        request_id=request_id,
        analyst=reservation.analyst,
        via=reservation.via or None,
        purpose=reservation.purpose,
        claim=reservation.claim,
        state=_state(reservation, at),
        reserved_at=iso(reservation.reserved_at),
        until=iso(reservation.deadline),
        deadline_passed=reservation.is_lapsed(now),
        final_at=None if reservation.due == NEVER else iso(reservation.due),
        held=held,
        shown=shown,
        is_question=reservation.is_question,
    )


def _state(reservation: Reservation, at: int) -> ReservationState:
    assert reservation.stage != "settled", "it is open no more"
    if not reservation.is_lapsed(at):
        return reservation.stage
    return "lapsed" if reservation.stage == "reserved" else "lapsed_after_begin"


class HeldAtLimits:
    """What the open reservations of a dataset hold of each limit and of its period."""

    def __init__(self, reservations: Iterable[Reservation]) -> None:
        self._charges: dict[Key, list[LimitCharge]] = {}
        for reservation in reservations:
            for charge in reservation.charges:
                self._charges.setdefault(charge.key, []).append(charge)

    def counted(self, key: Key, since: int, nothing: Sums) -> Sums:
        """Return what they hold of a limit's budget.

        Args:
            since: version since which the limit's use is counted: other charges count no more.
            nothing: a zero for each sum.
        """
        charges = self._charges.get(key, ())
        return _sum((each.counted for each in charges if each.counted_since == since), nothing)

    def paced(self, key: Key, begins_at: int, nothing: Sums) -> Sums:
        """Return what they hold of a limit's period that begins at a time."""
        charges = self._charges.get(key, ())
        return _sum((each.period_used for each in charges if each.begins_at == begins_at), nothing)


def _sum(found: Iterable[Sums], nothing: Sums) -> Sums:
    total = nothing
    for each in found:
        if len(each) >= len(total):
            total = plus(total, tuple([0 if a == INFINITE else a for a in each[: len(total)]]))
    return total
