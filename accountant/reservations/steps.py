"""The rules of a reservation's steps: begin, settle, void, and an owner's word on a broken one."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from accountant.claims import Brownian, ExPost, check_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import advance
from accountant.limits.state import LimitState
from accountant.limits.store import LimitStore
from accountant.members.pauses import pause_that_stops
from accountant.members.permits import Lookup, has_role, may_ask, may_run
from accountant.records import ReservationStep
from accountant.records.limit_records import LimitUpdate
from accountant.records.outcomes import Outcome, Reason
from accountant.records.person_pauses import PersonPause
from accountant.records.requests import Begin, Settle, Void
from accountant.reservations.continuation import settled_row
from accountant.reservations.held import with_change
from accountant.reservations.refund import (
    Refund,
    give_back,
    reduce_charges,
    refund_of_begin,
    refund_of_session,
    refund_of_void,
)
from accountant.reservations.reservation import Reservation
from accountant.times import ClockResets


class StepResult(NamedTuple):
    """What a step was decided to be.

    Attributes:
        outcome, reason: of its decision.
        ledger: after it.
        reservation: after it; None for one without a row.
        limits, updates: limits that got something back, and what the decision says about them.
        pause: that of the sender, where it refuses.
    """

    outcome: Outcome
    reason: Reason | None
    ledger: DatasetLedger
    reservation: Reservation | None
    limits: tuple[LimitState, ...] = ()
    updates: tuple[LimitUpdate, ...] = ()
    pause: PersonPause | None = None


def decide_step(
    ledger: DatasetLedger,
    reservation: Reservation | None,
    step: ReservationStep,
    lookup: Lookup,
    store: LimitStore,
    at: int,
    resets: ClockResets,
    clock: int,
) -> StepResult:
    """Return the decision on a step, by the table of docs/reference/reservations.md.

    Args:
        ledger: before the decision.
        reservation: the open one that the step names, None if there is none.
        lookup: of the dataset's members.
        store: the limits of the partition.
        at: the decision's time, milliseconds since 1970.
        resets: those of the partition's clock.
        clock: the time that deadlines are compared with, the latest of the reservation's datasets.
    """
    reason = _refusal(ledger, reservation, step, lookup, at, clock)
    if reservation is None or reason is not None:
        return _refused(ledger, reservation, step, reason or Reason.NOT_OPEN, lookup, at)
    finish = partial(_finish, ledger, store, reservation, at=at, resets=resets)
    claim = check_claim(reservation.claim)
    if isinstance(step, Begin):
        cheaper = refund_of_begin(ledger, store, reservation, claim)
        begun = reduce_charges(reservation, cheaper)
        return finish(cheaper, Outcome.BEGUN, msgspec.structs.replace(begun, stage="begun"))
    if isinstance(step, Void):
        return finish(refund_of_void(ledger, store, reservation, claim), Outcome.VOIDED, None)
    settled = settled_row(ledger, reservation, step.shown or None)
    if step.shown is UNSET:
        return finish(None, Outcome.SETTLED, settled)
    session = refund_of_session(ledger, store, reservation, step.shown)
    return finish(session, Outcome.SETTLED, settled)


def _finish(
    ledger: DatasetLedger,
    store: LimitStore,
    before: Reservation,
    back: Refund | None,
    outcome: Outcome,
    after: Reservation | None,
    *,
    at: int,
    resets: ClockResets,
) -> StepResult:
    if back is None:
        settled = with_change(advance(ledger, at), before, after)
        return StepResult(outcome, None, settled, after)
    refunded = give_back(ledger, store, back, at, resets.number)
    changed = with_change(refunded.ledger, before, after)
    return StepResult(outcome, None, changed, after, refunded.limits, refunded.updates)


def _refused(
    ledger: DatasetLedger,
    reservation: Reservation | None,
    step: ReservationStep,
    reason: Reason,
    lookup: Lookup,
    at: int,
) -> StepResult:
    """Refuse a step. A settlement beyond the maximum breaks the reservation, by a member alone.

    Of a question's, only a curator comes so far.
    """
    after = advance(ledger, at)
    if reason is Reason.PERSON_PAUSED:
        pause = pause_that_stops(ledger.facts.person_pauses, lookup, step)
        return StepResult(Outcome.REFUSED, reason, after, reservation, pause=pause)
    if reservation is None or reason is not Reason.BEYOND_MAXIMUM:
        return StepResult(Outcome.REFUSED, reason, after, reservation)
    if not reservation.is_question and not may_ask(ledger.plan.policy, lookup, step, at):
        return StepResult(Outcome.REFUSED, reason, after, reservation)
    broken = msgspec.structs.replace(reservation, stage="broken")
    return StepResult(Outcome.REFUSED, reason, with_change(after, reservation, broken), broken)


def _refusal(
    ledger: DatasetLedger,
    reservation: Reservation | None,
    step: ReservationStep,
    lookup: Lookup,
    at: int,
    clock: int,
) -> Reason | None:
    """Return why a step is refused, None if it is not. The order is that of `Reason`."""
    policy = ledger.plan.policy
    member, curator = may_ask(policy, lookup, step, at), may_run(policy, lookup, step, at)
    if reservation is None:
        known = member or curator or _is_by_owner(step, lookup, at)
        return Reason.NOT_OPEN if known else Reason.NOT_PERMITTED
    if reservation.is_question and not isinstance(step, Void):
        # What runs is the question, so its sender cannot say what it has shown.
        permitted = curator and step.analyst == reservation.analyst
    else:
        permitted = _may_take(reservation, step, lookup, at, member=member)
    if not permitted:
        return Reason.NOT_PERMITTED
    if reservation.datasets and step.dataset != reservation.datasets[0]:
        return Reason.NOT_FIRST_DATASET
    if isinstance(step, Settle):
        return _settlement_refusal(reservation, step, clock)
    if reservation.stage != "reserved":
        return Reason.ALREADY_BEGUN
    if isinstance(step, Void):
        # It may come late, for what never read the data never ran: until the row is final.
        return Reason.LAPSED if reservation.due <= clock else None
    if reservation.is_lapsed(clock):
        return Reason.LAPSED
    if ledger.closed:
        return Reason.CLOSED
    if ledger.suspended:
        return Reason.SUSPENDED
    if ledger.facts.paused:
        return Reason.PAUSED
    is_paused = pause_that_stops(ledger.facts.person_pauses, lookup, step) is not None
    return Reason.PERSON_PAUSED if is_paused else None


def _may_take(
    reservation: Reservation, step: ReservationStep, lookup: Lookup, at: int, *, member: bool
) -> bool:
    """Tell whether a caller may take a step.

    The analyst may, or the engine that reserved for the analyst. To begin and to void they must
    still be members; to settle they need not. An owner may void.
    """
    holds = step.analyst == reservation.analyst and step.via in (UNSET, reservation.via)
    if holds and (member or isinstance(step, Settle)):
        return True
    return _is_by_owner(step, lookup, at)


def _is_by_owner(step: ReservationStep, lookup: Lookup, at: int) -> bool:
    """Tell whether an owner voids."""
    if not isinstance(step, Void) or step.via is not UNSET:
        return False
    return has_role(lookup, step.analyst, "owner", at)


def _settlement_refusal(reservation: Reservation, step: Settle, clock: int) -> Reason | None:
    if reservation.stage == "reserved":
        # Nothing can begin any more once the deadline has passed.
        lapsed = reservation.is_lapsed(clock)
        return Reason.LAPSED if lapsed else Reason.NOT_BEGUN
    if reservation.stage == "broken":
        return Reason.BEYOND_MAXIMUM
    if reservation.is_lapsed(clock):
        return Reason.LAPSED
    if step.shown is UNSET:
        return None
    claim = reservation.claim
    if not isinstance(claim, Brownian | ExPost) or not claim.is_session:
        return Reason.SETTLES_IN_FULL
    last = Decimal(step.shown)
    finest = claim.variance if isinstance(claim, Brownian) else str(claim.least)
    if last < Decimal(finest):
        return Reason.BEYOND_MAXIMUM
    return Reason.ABOVE_FIRST if last > Decimal(str(claim.first)) else None
