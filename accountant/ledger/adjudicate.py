"""Decide one request on one ledger: the rule of the whole product, pure."""

from __future__ import annotations

from operator import add
from typing import Final

import msgspec

from accountant.amounts import INFINITE, Units, format_units
from accountant.claims import CheckedClaim
from accountant.claims.price import Price, price
from accountant.ledger import Ledger
from accountant.ledger.largest_fit import largest
from accountant.policy.compiled import CompiledPolicy
from accountant.records.outcomes import Outcome, Reason

_NONE_CROSSED: Final[tuple[str, ...]] = ()


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What was decided, apart from the ledger after it.

    Attributes:
        outcome: granted or refused.
        reason: why it was refused.
        price: what was asked for; None if that was never looked at.
        cost: what a grant has added to each of the totals, by name, as decimal strings.
        crossed: ratios of the policy's `alert_at` that this decision is the first to reach.
        fits: the largest claim of the kind asked for that would still be granted, as text.
    """

    outcome: Outcome
    reason: Reason | None = None
    price: Price | None = None
    crossed: tuple[str, ...] = _NONE_CROSSED
    fits: str | None = None
    cost: dict[str, str] | None = None


def adjudicate(
    ledger: Ledger, claim: CheckedClaim, unit: str, neighbours: str, at: int
) -> tuple[Ledger, Verdict]:
    """Return the ledger after one request, and the verdict on it.

    Args:
        ledger: before the request; never changed.
        claim: what the mechanism promises, its fields checked.
        unit, neighbours: what the claim was made for.
        at: the decision's time, milliseconds since 1970.
    A refusal spends nothing and leaves the filter open, unless the policy halts on it.
    Reasons in the order in which they are looked for: closed, halted, unit_mismatch,
    claim_not_accepted, above_cap, exhausted.
    """
    plan = ledger.plan
    if ledger.closed:
        return _refuse(ledger, Reason.CLOSED, at, None)
    if ledger.halted:
        return _refuse(ledger, Reason.HALTED, at, None)
    policy = plan.policy
    if unit != policy.unit or neighbours != policy.neighbours:
        return _refuse(ledger, Reason.UNIT_MISMATCH, at, None)
    if claim.only_for and claim.only_for != policy.neighbours:
        return _refuse(ledger, Reason.CLAIM_NOT_ACCEPTED, at, None)
    asked = price(claim, plan.priced)
    totals = ledger.totals
    width = plan.width
    spent = plan.kind.charge(plan.capacity, totals[:width], asked)
    if plan.cap is not None and not plan.cap.admits(asked) and plan.kind.accepts(asked):
        # Not for want of budget: it halts nothing and crosses no threshold.
        fits = largest(claim.claim, plan.offered, plan.capacity, ledger.spent)
        return _moved(ledger, at), Verdict(
            Outcome.REFUSED, Reason.ABOVE_CAP, asked, _NONE_CROSSED, fits
        )
    if spent is None:
        if not plan.kind.accepts(asked):
            return _refuse(ledger, Reason.CLAIM_NOT_ACCEPTED, at, asked)
        return _refuse_exhausted(ledger, claim, at, asked)
    after = spent + tuple(map(add, totals[width:], asked.amounts[plan.needed :]))
    progress = plan.kind.progress(plan.capacity, spent)
    cost = asked.wire if plan.additive else _grown(plan, totals, after)
    crossed_after, crossed = ledger.crossed, _NONE_CROSSED
    thresholds = plan.thresholds
    if crossed_after < len(thresholds) and progress >= thresholds[crossed_after]:
        crossed_after = plan.count_crossed(progress, exhausted=False)
        crossed = policy.alert_at[ledger.crossed : crossed_after]
    granted = Ledger(
        dataset=ledger.dataset,
        plan=plan,
        sequence=ledger.sequence + 1,
        mechanisms=ledger.mechanisms + asked.mechanisms,
        totals=after,
        crossed=crossed_after,
        exhausted=ledger.exhausted or progress >= plan.capacity[0],
        closed=False,
        opened_at=ledger.opened_at,
        changed_at=at,
        generation=ledger.generation,
        readings=plan.readings(after),
    )
    return granted, Verdict(Outcome.GRANTED, None, asked, crossed, None, cost)


def _grown(
    plan: CompiledPolicy, before: tuple[Units, ...], after: tuple[Units, ...]
) -> dict[str, str]:
    """Return what each total has grown by; one that became infinite grew by that."""
    grown = [b if b == INFINITE else b - a for a, b in zip(before, after, strict=True)]
    return dict(zip(plan.sums, map(format_units, grown), strict=True))


def _refuse(ledger: Ledger, reason: Reason, at: int, asked: Price | None) -> tuple[Ledger, Verdict]:
    return _moved(ledger, at), Verdict(Outcome.REFUSED, reason, asked)


def _refuse_exhausted(
    ledger: Ledger, claim: CheckedClaim, at: int, asked: Price
) -> tuple[Ledger, Verdict]:
    plan = ledger.plan
    crossed: tuple[str, ...] = _NONE_CROSSED
    crossed_after, exhausted = ledger.crossed, ledger.exhausted
    if plan.progress(ledger.totals) >= plan.nearly:
        exhausted = True
        crossed_after = len(plan.thresholds)
        crossed = plan.policy.alert_at[ledger.crossed :]
    halts = bool(plan.policy.halt_on_refusal)
    # After a halt nothing would be granted any more, so nothing is offered.
    fits = None if halts else largest(claim.claim, plan.offered, plan.capacity, ledger.spent)
    verdict = Verdict(Outcome.REFUSED, Reason.EXHAUSTED, asked, crossed, fits)
    return _moved(ledger, at, crossed_after, exhausted, halts), verdict


def _moved(
    ledger: Ledger,
    at: int,
    crossed: int | None = None,
    exhausted: bool | None = None,
    halts: bool = False,
) -> Ledger:
    """Return the ledger with only its sequence, its time and its thresholds moved on."""
    return msgspec.structs.replace(
        ledger,
        sequence=ledger.sequence + 1,
        crossed=ledger.crossed if crossed is None else crossed,
        exhausted=ledger.exhausted if exhausted is None else exhausted,
        changed_at=at,
        halted=ledger.halted or halts,
    )
