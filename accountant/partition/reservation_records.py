"""Decide what concerns reservations, and take what it changes into the draft."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import gt

import msgspec

from accountant.amounts import INFINITE, format_units
from accountant.claims import Claim, check_claim
from accountant.dataset_ledger import DatasetLedger, guarantee_after_resolving
from accountant.ledger.adjudicate import Verdict, advance, charge_outside
from accountant.limits.reserved_totals import plus
from accountant.partition.draft import Draft
from accountant.records import ReservationStep
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.outcomes import Outcome, Reason
from accountant.records.records import ReservationUpdate
from accountant.records.requests import MechanismRequest, Resolve, Settle
from accountant.records.reservation_rows import Stage
from accountant.reservations.held import reservation_of_grant, with_change, with_reservation
from accountant.reservations.reservation import Reservation
from accountant.reservations.steps import StepResult, decide_step
from accountant.times import iso

StepVerdict = tuple[DatasetLedger, Verdict, dict[str, object], Reservation | None]
"""The ledger after a record, the verdict, the decision's extra fields, and the reservation that
the record is about, as it was before."""


def update_of(reservation: Reservation) -> ReservationUpdate:
    """Return what the decision `reserved` says about its reservation."""
    return ReservationUpdate(
        reservation.analyst, iso(reservation.deadline), purpose=reservation.purpose
    )


def reserve(
    before: DatasetLedger,
    granted: DatasetLedger,
    request: MechanismRequest,
    claim: Claim,
    verdict: Verdict,
    reserved_at: int,
) -> tuple[DatasetLedger, dict[str, object], Reservation]:
    """Return a dataset's ledger with a reservation, its decision's extra fields, and its row.

    Args:
        before, granted: the dataset's ledger, without and with the grant.
        claim, reserved_at: as of `reservation_of_grant`.
    """
    new = reservation_of_grant(before, granted, request, claim, verdict.charges, reserved_at)
    extra: dict[str, object] = {
        "reservation": update_of(new),
        "cost": verdict.cost,
        "asked": None,
        "levels": tuple([each.update for each in verdict.charged]),
    }
    return with_reservation(granted, new), extra, new


def place(draft: Draft, rows: Iterable[Reservation], encoded: EncodedDecision) -> None:
    """Put the rows of a decision `reserved` in the draft: they are named by its hash."""
    grant, number = f"sha256:{encoded.digest.hex()}", encoded.partition_sequence
    for row in rows:
        placed = msgspec.structs.replace(row, grant=grant, partition_sequence=number)
        draft.reservations.put(placed)


def decide_reservation_step(
    draft: Draft, ledger: DatasetLedger, step: ReservationStep
) -> StepVerdict:
    """Decide a step of a reservation on a dataset that exists, and put its changes in the draft."""
    before = draft.reservations.open(ledger.dataset, step.grant)
    result = step_result(draft, ledger, step, ledger.clock(draft.decided_at))
    return (*put_step(draft, ledger, step, result), before)


def step_result(
    draft: Draft, ledger: DatasetLedger, step: ReservationStep, clock: int
) -> StepResult:
    """Return the decision on a step in one dataset; it changes nothing.

    Args:
        clock: as of `decide_step`.
    """
    dataset, at = ledger.dataset, draft.decided_at
    before = draft.reservations.open(dataset, step.grant)
    lookup = partial(draft.members.get, dataset)
    return decide_step(ledger, before, step, lookup, draft.levels, at, draft.resets, clock)


def put_step(
    draft: Draft, ledger: DatasetLedger, step: ReservationStep, result: StepResult
) -> tuple[DatasetLedger, Verdict, dict[str, object]]:
    """Put what a step changes in one dataset in the draft.

    Returns: the dataset's ledger after it, the verdict, and the decision's extra fields.
    """
    before = draft.reservations.open(ledger.dataset, step.grant)
    verdict = Verdict(result.outcome, result.reason, pause=result.pause)
    if before is None:
        return result.ledger, verdict, {}
    shown = step.shown or None if isinstance(step, Settle) else None
    update = ReservationUpdate(
        before.analyst,
        iso(before.deadline),
        iso(before.reserved_at),
        _broken_by(before, result.reservation),
        _fallen(ledger, result.ledger),
        shown,
        before.purpose,
    )
    if result.reservation is None:
        draft.reservations.remove(before)
    elif result.reservation is not before:
        draft.reservations.put(result.reservation)
    for limit in result.limits:
        draft.levels.put(limit)
    return result.ledger, verdict, {"reservation": update, "levels": result.updates}


def _broken_by(before: Reservation, after: Reservation | None) -> Stage | None:
    broken = after is not None and after.stage == "broken" and before.stage != "broken"
    return "broken" if broken else None


def _fallen(before: DatasetLedger, after: DatasetLedger) -> dict[str, str] | None:
    """Return by how much each written total has fallen, of those that have."""
    triples = zip(before.plan.sums, before.totals, after.totals, strict=True)
    fallen = {
        name: format_units(int(was) - int(now))
        for name, was, now in triples
        if INFINITE not in (was, now) and int(was) > int(now)
    }
    return fallen or None


def decide_resolve(draft: Draft, ledger: DatasetLedger, record: Resolve) -> StepVerdict:
    """Decide an owner's record on a reservation that released beyond its maximum."""
    at = draft.decided_at
    before = draft.reservations.open(ledger.dataset, record.grant)
    reason = _resolve_refusal(ledger, before, record)
    if reason is not None or before is None:
        return advance(ledger, at), Verdict(Outcome.REFUSED, reason), {}, None
    after, cost, crossed = advance(ledger, at), None, tuple[str, ...]()
    if record.claim is not None:
        charged = charge_outside(ledger, check_claim(record.claim), at)
        if charged is not None and _breaks_shares(draft, charged[0]):
            charged = None
        if charged is not None:
            after, cost, crossed = charged
    mistaken = record.claim is None
    guarantee = guarantee_after_resolving(
        ledger.guarantee, mistaken=mistaken, charged=cost is not None
    )
    after = msgspec.structs.replace(
        with_change(after, before, None),
        guarantee=guarantee,
        note=record.mistaken or record.reason or ledger.note,
    )
    draft.reservations.remove(before)
    update = ReservationUpdate(before.analyst, iso(before.deadline), iso(before.reserved_at))
    extra: dict[str, object] = {"reservation": update}
    if cost is not None:
        extra["cost"] = cost
    return after, Verdict(Outcome.RESOLVED, crossed=crossed), extra, before


def _breaks_shares(draft: Draft, ledger: DatasetLedger) -> bool:
    """Tell whether what is spent and what is reserved for shares exceed the budget together."""
    promised = plus(ledger.spent, draft.levels.reserved(ledger.dataset))
    return any(map(gt, promised, ledger.plan.capacity))


def _resolve_refusal(
    ledger: DatasetLedger, reservation: Reservation | None, record: Resolve
) -> Reason | None:
    if ledger.has_changed_since(record.follows):
        return Reason.OUT_OF_DATE
    if reservation is None:
        return Reason.NOT_OPEN
    if reservation.stage != "broken":
        return Reason.NOT_BROKEN
    if record.claim is not None:
        only_for = check_claim(record.claim).only_for
        if only_for and only_for != ledger.plan.policy.neighbours:
            return Reason.CLAIM_NOT_ACCEPTED
    return None
