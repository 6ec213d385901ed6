"""Which settled session a claim may continue.

A claim at `previous` is charged what its answers cost beyond those that the session has shown. That
is too little where the session has settled above `previous`, or has not settled. A session of a
smaller sensitivity was charged less for the same variance, so it is too little there, too.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import msgspec
from msgspec import UNSET

from accountant.claims import Brownian, CheckedClaim
from accountant.dataset_ledger import DatasetLedger
from accountant.records.reservation_rows import MAX_SETTLED
from accountant.reservations.reservation import Reservation


def may_continue(
    claim: CheckedClaim,
    analyst: str,
    find: Callable[[str], Reservation | None],
    at: int,
    datasets: tuple[str, ...] = (),
) -> bool:
    """Tell whether each session that a claim names was charged what the claim takes as paid.

    It has settled at the claim's `previous` or below, of the claim's sensitivity or a larger one.

    A session of another analyst counts as unknown, so that nobody learns its level. A session over
    several datasets is continued over the same ones: what is finer is charged in each of them.

    Args:
        find: returns a reservation of the dataset by its grant.
        at: the time that deadlines are compared with, milliseconds since 1970.
        datasets: of a request over several datasets, all of them.
    """
    for each in claim.refinements:
        if each.continues is UNSET:
            continue
        found = find(each.continues)
        if found is None or found.stage != "settled" or found.analyst != analyst:
            return False
        if set(found.datasets) != set(datasets):
            return False
        settled = found.claim
        assert isinstance(settled, Brownian)
        if found.is_lapsed(at) or Decimal(str(each.previous)) < Decimal(settled.variance):
            return False
        if Decimal(each.sensitivity) > Decimal(settled.sensitivity):
            return False
    return True


def settled_row(
    ledger: DatasetLedger, reservation: Reservation, shown: str | None
) -> Reservation | None:
    """Return the row of a session that settles, None where no claim may continue it.

    A live decision and a replay both call this. Nobody continues a question's: its noise is the
    curator's. The row holds nothing, and is dropped at the
    reservation's deadline.

    Args:
        ledger: before the settlement.
        shown: the last variance shown, None where it settles in full.
    """
    claim = reservation.claim
    settled = 0 if ledger.held is None else ledger.held.settled
    if not isinstance(claim, Brownian) or reservation.is_question or settled >= MAX_SETTLED:
        return None
    return msgspec.structs.replace(
        reservation,
        claim=claim if shown is None else msgspec.structs.replace(claim, variance=shown),
        stage="settled",
        charged=(0,) * len(reservation.charged),
        after=None,
        charges=(),
    )
