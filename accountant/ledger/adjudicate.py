"""Decide one request on one ledger: the rule of the whole product, pure."""

from __future__ import annotations

from functools import lru_cache
from operator import add
from typing import Final

import msgspec
from msgspec import UnsetType

from accountant.amounts import Units, format_units
from accountant.claims import CheckedClaim
from accountant.claims.price import Price, price
from accountant.claims.text import parse_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.filters import BesideBasic
from accountant.fractional import Fractional
from accountant.ledger.budgets import AllBudgets, Denial, budgets_of
from accountant.ledger.largest_fit import largest
from accountant.limits.applicable_limits import ApplicableLimits, remaining_at
from accountant.limits.charge import ChargedLimit, LimitCharge, charge, charges_of
from accountant.policy import MAX_OPEN
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.limit_records import LimitName, LimitRemaining
from accountant.records.outcomes import Outcome, Reason
from accountant.records.person_pauses import PersonPause
from accountant.records.reservation_rows import HolderCount

_NONE_CROSSED: Final[tuple[str, ...]] = ()
_NO_LEVELS: Final[tuple[ChargedLimit, ...]] = ()
_GRANTED: Final = Outcome.GRANTED  # every grant looks it up: an enum's member takes longer


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What was decided, apart from the ledger after it.

    Attributes:
        outcome: granted or refused.
        reason: why it was refused.
        price: of the claim; None if the decision did not need it.
        cost: what a grant has added to each of the totals, rounded up, by name, as decimals.
        ends: the filter that a grant has ended, admitted only by basic composition beside it; of a
            refusal, the one that what it offers would end.
        crossed: ratios of the policy's `alert_at` that this decision is the first to reach.
        fits: the largest claim of the kind asked for that would still be granted, as text.
        level: that has refused, None where it was the dataset itself.
        left_at: what each level has left, of what was refused for want of budget.
        charged: of a grant, each level that it was charged to.
        charges: of a reservation, the exact amounts of each of them.
        holder: who has too many open reservations, of a refusal for that.
        pause: who is paused, of a refusal for that.
    """

    outcome: Outcome
    reason: Reason | None = None
    price: Price | None = None
    crossed: tuple[str, ...] = _NONE_CROSSED
    fits: str | None = None
    cost: dict[str, str] | None = None
    ends: str | None = None
    level: LimitName | None = None
    left_at: tuple[LimitRemaining, ...] = ()
    charged: tuple[ChargedLimit, ...] = ()
    charges: tuple[LimitCharge, ...] = ()
    holder: HolderCount | None = None
    pause: PersonPause | None = None


def adjudicate(
    ledger: DatasetLedger,
    claim: CheckedClaim,
    unit: str | UnsetType,
    neighbours: str | UnsetType,
    at: int,
    limits: ApplicableLimits | None = None,
    reserve: bool = False,
    full: HolderCount | None = None,
    pause: PersonPause | None = None,
) -> tuple[DatasetLedger, Verdict]:
    """Return the ledger after one request, and the verdict on it.

    Args:
        ledger: before the request; never changed.
        claim: what the mechanism promises, its fields checked.
        unit, neighbours: what the claim was made for.
        at: the decision's time, milliseconds since 1970.
        limits: those that apply to the caller, None where the dataset has none.
        reserve: the request is a reservation; a caller updates `held` of the ledger after it.
        full, pause: as of `reason_stopped`.
    A refusal spends nothing and leaves the filter open, unless the policy halts on it.
    Reasons in the order in which they are checked: closed, suspended, paused,
    person_paused, halted, too_many_open, too_many_of_holder, unit_mismatch, claim_not_accepted,
    above_cap, exhausted; then the levels', claim_not_accepted and exhausted.
    """
    plan = ledger.plan
    held = ledger.held
    is_stopped = ledger.closed or ledger.facts.paused or ledger.halted or pause is not None
    if is_stopped or held is not None:  # hardly ever
        stopped = reason_stopped(ledger, reserve=reserve, full=full, pause=pause)
        if stopped is not None:
            return advance(ledger, at), refusal_of_all(stopped, full, pause)
    policy = plan.policy
    if unit != policy.unit or neighbours != policy.neighbours:
        return _refuse(ledger, Reason.UNIT_MISMATCH, at, None)
    if claim.only_for and claim.only_for != policy.neighbours:
        return _refuse(ledger, Reason.CLAIM_NOT_ACCEPTED, at, None)
    asked = price(claim, plan.priced)
    totals, charged, new = ledger.totals, _NO_LEVELS, 0
    spent = None
    if limits is None and not reserve and plan.is_plain:  # the only budget is the dataset's own
        spent = plan.kind.charge(plan.capacity, totals[: plan.width], asked)
    if spent is None:
        budgets = budgets_of(ledger, limits)
        used = budgets.charge(claim, asked, reserve)
        if isinstance(used, Denial):
            return _refuse_denied(ledger, claim, at, asked, budgets, used, limits)
        spent = used[0]
        if limits is not None:
            charged = charge(limits, ledger, asked, used[1 + bool(limits.reserved) :])
            # Only the first use under a default has no row yet.
            new = sum(not each.before.sequence for each in charged)
    after = spent + tuple(map(add, totals[plan.width :], asked.amounts[plan.needed :]))
    progress = plan.kind.progress(plan.limits, spent)
    if not plan.additive:
        named = _shared if plan.kind.adds_up else _by_name
        cost = named(plan.sums, _growth(totals, after, after))
    elif asked.fractional:
        cost = _shared(plan.sums, _growth(totals, after, asked.amounts))
    else:
        cost = asked.wire
    crossed_after, crossed = ledger.crossed, _NONE_CROSSED
    thresholds = plan.thresholds
    if crossed_after < len(thresholds) and progress >= thresholds[crossed_after]:
        crossed_after = plan.count_crossed(progress, exhausted=False)
        crossed = policy.alert_at[ledger.crossed : crossed_after]
    granted = DatasetLedger(  # by position: keywords take five times as long
        ledger.dataset,
        plan,
        ledger.sequence + 1,
        ledger.mechanisms + asked.mechanisms,
        after,
        crossed_after,
        ledger.exhausted or progress >= plan.most,
        False,
        ledger.opened_at,
        at,
        ledger.generation,
        False,
        # A filter that is not additive also charges the parts of a batch whose sum is infinite.
        (asked.fractional or ledger.fractional or not plan.additive)
        and Fractional in map(type, after),
        ledger.owners,
        ledger.members,
        ledger.granted_at or (at if plan.dates_grants else 0),
        ledger.levels + new,
        ledger.limits,
        held,
        ledger.guarantee,
        ledger.note,
        ledger.facts,
        ledger.pending,
    )
    ended = plan.ended
    ends = policy.filter if ended is not None and after[ended] != totals[ended] else None
    verdict = Verdict(_GRANTED, None, asked, crossed, None, cost, ends, None, (), charged)
    return granted, _reserved(verdict, limits) if reserve else verdict


def _reserved(granted: Verdict, limits: ApplicableLimits | None) -> Verdict:
    """Return the verdict on a reservation that is charged as a grant is."""
    charges = () if limits is None else tuple(charges_of(limits, granted.charged))
    return msgspec.structs.replace(granted, outcome=Outcome.RESERVED, charges=charges)


def reason_without_price(plan: CompiledPolicy, claim: CheckedClaim, asked: Price) -> Reason | None:
    """Return why a release that no request asked for has no price here, None where it has one.

    Args:
        asked: the price of the claim.
    """
    if not plan.kind.adds_up:  # its cost depends on the grants that came after the release
        return Reason.RECORD_NOT_POSSIBLE
    if claim.only_for and claim.only_for != plan.policy.neighbours:
        return Reason.CLAIM_NOT_ACCEPTED
    return None if plan.kind.accepts(asked) else Reason.CLAIM_NOT_ACCEPTED


def charge_outside(
    ledger: DatasetLedger, claim: CheckedClaim, at: int, *, is_first: bool = False
) -> tuple[DatasetLedger, dict[str, str], tuple[str, ...]] | None:
    """Return the ledger after a release that no request asked for, None where it does not fit.

    Under gdp_residue it does only where it came before all grants, on whose order costs depend.

    Args:
        is_first: nothing was granted before it.
    Returns: the ledger, what each written total has grown by, and the thresholds crossed.
    """
    plan = ledger.plan
    asked = price(claim, plan.priced)
    if not (plan.kind.adds_up or is_first):
        return None
    spent = plan.kind.charge(plan.capacity, ledger.spent, asked)
    if spent is None:
        return None
    odometers = map(add, ledger.totals[plan.width :], asked.amounts[plan.needed :])
    after = (*spent, *odometers)
    progress = plan.progress(after)
    reached = max(ledger.crossed, plan.count_crossed(progress, exhausted=False))
    exhausted = ledger.exhausted or progress >= plan.most
    charged = msgspec.structs.replace(
        advance(ledger, at, reached, exhausted),
        mechanisms=ledger.mechanisms + asked.mechanisms,
        totals=after,
        fractional=Fractional in map(type, after),
        granted_at=ledger.granted_at or (at if plan.dates_grants else 0),
    )
    cost = _by_name(plan.sums, _growth(ledger.totals, after, after))
    return charged, cost, plan.policy.alert_at[ledger.crossed : reached]


def refusal_of_all(reason: Reason, full: HolderCount | None, pause: PersonPause | None) -> Verdict:
    """Return the refusal of whatever is asked, for a reason of `reason_stopped`."""
    holder = full if reason is Reason.TOO_MANY_OF_HOLDER else None
    stops = pause if reason is Reason.PERSON_PAUSED else None
    return Verdict(Outcome.REFUSED, reason, holder=holder, pause=stops)


def refused_for(reason: Reason | None) -> Verdict:
    """Return a refusal that says no more than its reason."""
    return Verdict(Outcome.REFUSED, reason)


def reason_stopped(
    ledger: DatasetLedger,
    *,
    reserve: bool,
    full: HolderCount | None,
    pause: PersonPause | None = None,
) -> Reason | None:
    """Return why a dataset grants nothing, whatever is asked; None where it may grant.

    Args:
        reserve: the request is a reservation.
        full: the first holder of a reservation who has as many open ones as the policy allows.
        pause: that of the sender.
    """
    if ledger.closed:
        return Reason.CLOSED
    held = ledger.held
    if held is not None and held.broken:
        return Reason.SUSPENDED
    if ledger.facts.paused:
        return Reason.PAUSED
    if pause is not None:
        return Reason.PERSON_PAUSED
    if ledger.halted:
        return Reason.HALTED
    if reserve and held is not None and held.count >= MAX_OPEN:
        return Reason.TOO_MANY_OPEN
    return Reason.TOO_MANY_OF_HOLDER if reserve and full is not None else None


def _growth(
    before: tuple[Units, ...], after: tuple[Units, ...], otherwise: tuple[Units, ...]
) -> tuple[Units, ...]:
    """Return what each total, as it is written, has grown by: `otherwise` of an infinite one."""
    return tuple(
        [
            other if isinstance(b, float) else int(b) - int(a)
            for a, b, other in zip(before, after, otherwise, strict=True)
        ]
    )


def _by_name(sums: tuple[str, ...], amounts: tuple[Units, ...]) -> dict[str, str]:
    return dict(zip(sums, map(format_units, amounts), strict=True))


# Of a claim with fractions the costs differ by a unit at most: there are few of them.
_shared = lru_cache(maxsize=4096)(_by_name)


def _refuse(
    ledger: DatasetLedger, reason: Reason, at: int, asked: Price | None
) -> tuple[DatasetLedger, Verdict]:
    return advance(ledger, at), Verdict(Outcome.REFUSED, reason, asked)


def _refuse_denied(
    ledger: DatasetLedger,
    claim: CheckedClaim,
    at: int,
    asked: Price,
    budgets: AllBudgets,
    denial: Denial,
    limits: ApplicableLimits | None,
) -> tuple[DatasetLedger, Verdict]:
    """Refuse what some budget denies; only the dataset's own is exhausted or halted by it."""
    plan, reason, place = ledger.plan, denial.reason, denial.place
    after, crossed, halts = advance(ledger, at), _NONE_CROSSED, False
    if reason is Reason.CLAIM_NOT_ACCEPTED:
        return after, Verdict(Outcome.REFUSED, reason, asked, level=place)
    if reason is Reason.EXHAUSTED and place is None:
        halts = bool(plan.policy.halt_on_refusal)
        after, crossed = _exhaust(ledger, at, halts=halts)
    remaining: tuple[LimitRemaining, ...] = ()
    if reason is Reason.EXHAUSTED and limits is not None:
        # Waiting for another period helps only where the dataset itself has room.
        remaining = remaining_at(limits, ledger, None if place is None else asked)
    # After a halt nothing would be granted any more, so nothing is offered.
    fits = (
        None if halts else largest(claim.claim, budgets.search_filter, plan.capacity, ledger.spent)
    )
    ends = would_end(plan, ledger.spent, fits)
    verdict = Verdict(
        *(Outcome.REFUSED, reason, asked, crossed, fits), ends=ends, level=place, left_at=remaining
    )
    return after, verdict


def _exhaust(
    ledger: DatasetLedger, at: int, *, halts: bool
) -> tuple[DatasetLedger, tuple[str, ...]]:
    """Return the ledger after its own budget has denied a claim, and the thresholds crossed."""
    plan = ledger.plan
    if plan.progress(ledger.totals) < plan.nearly:
        return advance(ledger, at, halts=halts), _NONE_CROSSED
    crossed = plan.policy.alert_at[ledger.crossed :]
    return advance(ledger, at, len(plan.thresholds), exhausted=True, halts=halts), crossed


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


def advance(
    ledger: DatasetLedger,
    at: int,
    crossed: int | None = None,
    exhausted: bool | None = None,
    halts: bool = False,
) -> DatasetLedger:
    """Return the ledger with only its sequence, its time and its thresholds moved on."""
    return msgspec.structs.replace(
        ledger,
        sequence=ledger.sequence + 1,
        crossed=ledger.crossed if crossed is None else crossed,
        exhausted=ledger.exhausted if exhausted is None else exhausted,
        changed_at=at,
        halted=ledger.halted or halts,
    )
