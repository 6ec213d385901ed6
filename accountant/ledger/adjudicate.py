"""Decide one request on one ledger: the rule of the whole product, pure."""

from __future__ import annotations

from functools import lru_cache
from operator import add
from typing import Final

import msgspec

from accountant.amounts import Units, format_units
from accountant.claims import CheckedClaim
from accountant.claims.price import Price, price
from accountant.claims.text import parse_claim
from accountant.filters import BesideBasic
from accountant.fractional import Fractional
from accountant.ledger import Ledger
from accountant.ledger.budgets import budgets_of, never_fits
from accountant.ledger.charge import Charge, Denial, charge
from accountant.ledger.largest_fit import largest
from accountant.limits.applicable import ApplicableLimits, remaining_at
from accountant.limits.state import Level
from accountant.limits.wire import LevelLeft, LevelNamed
from accountant.policy.compiled import CompiledPolicy
from accountant.records.outcomes import Outcome, Reason

_NONE_CROSSED: Final[tuple[str, ...]] = ()
_NO_LEVEL: Final = Charge()


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What was decided, apart from the ledger after it.

    Attributes:
        outcome: granted or refused.
        reason: why it was refused.
        price: what was asked for; None if that was never looked at.
        cost: what a grant has added to each of the totals, rounded up, by name, as decimals.
        ends: the filter that a grant has ended, let in by basic composition beside it alone; of a
            refusal, the one that what it offers would end.
        crossed: ratios of the policy's `alert_at` that this decision is the first to reach.
        fits: the largest claim of the kind asked for that would still be granted, as text.
        level: that has refused, None where it was the dataset itself.
        left_at: what each level has left, of what was refused for want of budget.
        charged: of a grant, each level that it was charged to.
        told: the same as the decision tells them, in JSON with a comma between.
        crossed_at_levels: whether one of them has reached a threshold.
    """

    outcome: Outcome
    reason: Reason | None = None
    price: Price | None = None
    crossed: tuple[str, ...] = _NONE_CROSSED
    fits: str | None = None
    cost: dict[str, str] | None = None
    ends: str | None = None
    level: LevelNamed | None = None
    left_at: tuple[LevelLeft, ...] = ()
    charged: tuple[Level, ...] = ()
    told: str = ""
    crossed_at_levels: bool = False


def adjudicate(
    ledger: Ledger,
    claim: CheckedClaim,
    unit: str,
    neighbours: str,
    at: int,
    standing: ApplicableLimits | None = None,
) -> tuple[Ledger, Verdict]:
    """Return the ledger after one request, and the verdict on it.

    Args:
        ledger: before the request; never changed.
        claim: what the mechanism promises, its fields checked.
        unit, neighbours: what the claim was made for.
        at: the decision's time, milliseconds since 1970.
        standing: the levels that apply to who asks, None where the dataset has no limits.
    A refusal spends nothing and leaves the filter open, unless the policy halts on it.
    Reasons in the order in which they are looked for: closed, halted, unit_mismatch,
    claim_not_accepted, above_cap, exhausted; then the levels', claim_not_accepted and exhausted.
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
    if plan.cap is not None and not plan.cap.admits(asked) and not _never(plan, claim, asked):
        # Not for want of budget: it halts nothing and crosses no threshold.
        fits = _offer(ledger, claim, standing)
        return moved(ledger, at), Verdict(
            Outcome.REFUSED,
            Reason.ABOVE_CAP,
            asked,
            _NONE_CROSSED,
            fits,
            ends=would_end(plan, ledger.spent, fits),
        )
    if spent is None:
        if _never(plan, claim, asked):
            return _refuse(ledger, Reason.CLAIM_NOT_ACCEPTED, at, asked)
        return _refuse_exhausted(ledger, claim, at, asked, standing)
    levels = _NO_LEVEL if standing is None else charge(standing, ledger, claim, asked)
    if isinstance(levels, Denial):
        return _refuse_at_level(ledger, claim, at, asked, levels)
    after = spent + tuple(map(add, totals[width:], asked.amounts[plan.needed :]))
    progress = plan.kind.progress(plan.capacity, spent)
    if not plan.additive:
        named = _shared if plan.kind.adds_up else _named
        cost = named(plan.sums, _grown(totals, after, after))
    elif asked.fractional:
        cost = _shared(plan.sums, _grown(totals, after, asked.amounts))
    else:
        cost = asked.wire
    crossed_after, crossed = ledger.crossed, _NONE_CROSSED
    thresholds = plan.thresholds
    if crossed_after < len(thresholds) and progress >= thresholds[crossed_after]:
        crossed_after = plan.count_crossed(progress, exhausted=False)
        crossed = policy.alert_at[ledger.crossed : crossed_after]
    granted = Ledger(  # by position: keywords take five times as long
        ledger.dataset,
        plan,
        ledger.sequence + 1,
        ledger.mechanisms + asked.mechanisms,
        after,
        crossed_after,
        ledger.exhausted or progress >= plan.capacity[0],
        False,
        ledger.opened_at,
        at,
        ledger.generation,
        plan.readings(after),
        False,
        _may_be_fractional(ledger, asked) and Fractional in map(type, after),
        ledger.owners,
        ledger.members,
        ledger.granted_at or (at if plan.dates_grants else 0),
        ledger.levels + levels.new,
        ledger.limits,
    )
    ended = plan.ended
    ends = policy.filter if ended is not None and after[ended] != totals[ended] else None
    charged, told = levels.levels, levels.told
    return granted, Verdict(
        *(Outcome.GRANTED, None, asked, crossed, None, cost, ends, None, (), charged, told),
        levels.crossed,
    )


def _never(plan: CompiledPolicy, claim: CheckedClaim, asked: Price) -> bool:
    return never_fits(plan.kind, plan.capacity, claim, asked)


def _may_be_fractional(ledger: Ledger, asked: Price) -> bool:
    # A filter that is not additive charges what stands in no amount: of a batch whose sum is
    # infinite, its parts.
    return asked.fractional or ledger.fractional or not ledger.plan.additive


def _grown(
    before: tuple[Units, ...], after: tuple[Units, ...], otherwise: tuple[Units, ...]
) -> tuple[Units, ...]:
    """Return what each total, as it is written, has grown by: `otherwise` of an infinite one."""
    return tuple(
        [
            other if isinstance(b, float) else int(b) - int(a)
            for a, b, other in zip(before, after, otherwise, strict=True)
        ]
    )


def _named(sums: tuple[str, ...], amounts: tuple[Units, ...]) -> dict[str, str]:
    return dict(zip(sums, map(format_units, amounts), strict=True))


# Of a claim with fractions the costs differ by a unit at most: there are few of them.
_shared = lru_cache(maxsize=4096)(_named)


def _refuse(ledger: Ledger, reason: Reason, at: int, asked: Price | None) -> tuple[Ledger, Verdict]:
    return moved(ledger, at), Verdict(Outcome.REFUSED, reason, asked)


def _refuse_at_level(
    ledger: Ledger,
    claim: CheckedClaim,
    at: int,
    asked: Price,
    denial: Denial,
) -> tuple[Ledger, Verdict]:
    """Refuse what the dataset itself would take: it is not exhausted, nor halted."""
    after = moved(ledger, at)
    if denial.reason is not Reason.EXHAUSTED:
        return after, Verdict(Outcome.REFUSED, denial.reason, asked, level=denial.level)
    fits = _offer(ledger, claim, denial.standing)
    verdict = Verdict(
        Outcome.REFUSED,
        Reason.EXHAUSTED,
        asked,
        fits=fits,
        ends=would_end(ledger.plan, ledger.spent, fits),
        level=denial.level,
        left_at=remaining_at(denial.standing, ledger, asked),
    )
    return after, verdict


def _refuse_exhausted(
    ledger: Ledger, claim: CheckedClaim, at: int, asked: Price, standing: ApplicableLimits | None
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
    fits = None if halts else _offer(ledger, claim, standing)
    ends = would_end(plan, ledger.spent, fits)
    left = () if standing is None else remaining_at(standing, ledger)
    verdict = Verdict(
        *(Outcome.REFUSED, Reason.EXHAUSTED, asked, crossed, fits), ends=ends, left_at=left
    )
    return moved(ledger, at, crossed_after, exhausted, halts), verdict


def _offer(ledger: Ledger, claim: CheckedClaim, standing: ApplicableLimits | None) -> str | None:
    plan = ledger.plan
    kind = plan.offered if standing is None else budgets_of(standing, ledger)
    return largest(claim.claim, kind, plan.capacity, ledger.spent)


def would_end(plan: CompiledPolicy, spent: tuple[Units, ...], fits: str | None) -> str | None:
    """Return the filter that a claim which fits would end, None if it ends none.

    Args:
        fits: the claim as text, None for no claim.
    """
    kind = plan.kind
    if fits is None or not isinstance(kind, BesideBasic) or kind.has_ended(spent):
        return None
    asked = price(CheckedClaim(parse_claim(fits)), kind.needs)
    return None if kind.filter_fits(plan.capacity, spent, asked) else kind.name


def moved(
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
