"""The reservations of a dataset, in sum, as decisions change them."""

from __future__ import annotations

from functools import reduce
from typing import Protocol

import msgspec
from msgspec import UNSET

from accountant.claims import Claim
from accountant.dataset_ledger import DatasetLedger, Held
from accountant.limits.charge import LimitCharge, after_refund, growth, state_sum
from accountant.limits.reserved_totals import Sums, plus
from accountant.records.requests import MechanismRequest
from accountant.records.reservation_rows import MAX_DROPPED, length_ms
from accountant.reservations.reservation import Reservation


class FinalReservations(Protocol):
    """Removes reservations that are final; see `ReservationChanges.take_final`."""

    def take_final(self, dataset: str, at: int, maximum: int) -> list[Reservation]: ...


def drop_final(table: FinalReservations, ledger: DatasetLedger, at: int) -> DatasetLedger:
    """Drop a dataset's first final reservations, as each of its decisions begins; move no total.

    A live decision and a replay both call this.

    Args:
        ledger: before the decision.
        at: the decision's time, milliseconds since 1970.
    """
    held = ledger.held
    if held is None:
        return ledger
    now = ledger.clock(at)
    final = table.take_final(ledger.dataset, now, MAX_DROPPED)
    amounts = reduce(_less, final, held.amounts)
    settled = sum(not row.is_open for row in final)
    after = Held(
        held.count - (len(final) - settled),
        held.broken,
        amounts,
        now if now > at else 0,
        held.settled - settled,
    )
    return _with(ledger, after)


def reservation_of_grant(
    before: DatasetLedger,
    after: DatasetLedger,
    request: MechanismRequest,
    claim: Claim,
    charges: tuple[LimitCharge, ...],
    reserved_at: int,
) -> Reservation:
    """Return the reservation that a grant makes, but for the place and hash of its decision.

    A live decision and a replay both call this.

    Args:
        before, after: the dataset's, without and with the grant.
        claim: the request's, or that derived from its question.
        charges: what each limit was charged.
        reserved_at: the latest clock of the request's datasets, so that all have one deadline.
    """
    assert request.reserve is not UNSET
    sums = before.plan.sums
    return Reservation(
        before.dataset,
        "",
        after.sequence,
        0,
        request.analyst,
        request.via or "",
        request.purpose,
        claim,
        "reserved",
        reserved_at,
        reserved_at + length_ms(request.reserve.until),
        sums,
        growth(before.totals, after.totals),
        state_sum(sums, after.totals),
        charges,
        request.datasets if request.other_datasets else (),
        request.question is not UNSET,
    )


def with_reservation(ledger: DatasetLedger, reservation: Reservation) -> DatasetLedger:
    """Return the ledger with one more open reservation."""
    held = ledger.held
    if held is None:
        return _with(ledger, Held(1, 0, reservation.held, 0))
    amounts = plus(held.amounts, reservation.held)
    return _with(ledger, msgspec.structs.replace(held, count=held.count + 1, amounts=amounts))


def with_change(
    ledger: DatasetLedger, before: Reservation, after: Reservation | None
) -> DatasetLedger:
    """Return the ledger after a step of an open reservation; None for one without a row."""
    held = ledger.held
    assert held is not None
    amounts = _less(held.amounts, before)
    if after is not None:
        amounts = plus(amounts, after.held)
    changed = Held(
        held.count - (after is None or not after.is_open),
        held.broken + _is_broken(after) - _is_broken(before),
        amounts,
        held.latest_at,
        held.settled + (after is not None and not after.is_open),
    )
    return _with(ledger, changed)


def settled_ratio(ledger: DatasetLedger) -> float:
    """Return the spent part of the additive budget without what open reservations hold, rounded up.

    No decision makes it smaller: what a step gives back was held.
    """
    held = ledger.held
    if held is None:
        return ledger.spent_ratio
    return ledger.plan.spent_ratio(after_refund(ledger.totals, held.amounts))


def _is_broken(reservation: Reservation | None) -> bool:
    return reservation is not None and reservation.stage == "broken"


def _less(amounts: Sums, reservation: Reservation) -> Sums:
    return after_refund(amounts, reservation.held)


def _with(ledger: DatasetLedger, held: Held) -> DatasetLedger:
    return msgspec.structs.replace(ledger, held=held if held.count or held.settled else None)
