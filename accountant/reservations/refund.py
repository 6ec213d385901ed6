"""What a step of a reservation gives back: to the dataset, and to each limit that was charged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from accountant.amounts import INFINITE, Units
from accountant.claims import CheckedClaim
from accountant.claims.price import price
from accountant.dataset_ledger import DatasetLedger
from accountant.filters import FILTERS, BesideBasic, Filter
from accountant.filters.beside import BESIDE
from accountant.filters.settlement import (
    returned_by_session,
    returned_by_voiding,
    settled_ex_post,
    voidable_mu_squared,
)
from accountant.fractional import Fractional, parts_of
from accountant.ledger.adjudicate import advance
from accountant.limits.charge import LimitCharge, after_refund, refund, state_sum
from accountant.limits.compiled_limit import CompiledLimit, whole_of
from accountant.limits.reserved_totals import Sums
from accountant.limits.state import LimitRule, LimitState, texts_of
from accountant.limits.store import LimitStore
from accountant.records.limit_records import LimitUpdate
from accountant.reservations.reservation import Reservation

_STATE: Final = "mu_squared"

Returned = Callable[[tuple[str, ...], Sums], Sums]
"""Returns what comes back of some sums, given what each was charged."""


class Refund(NamedTuple):
    """The amounts that come back of a reservation.

    Attributes:
        returned: of each of the dataset's totals.
        charges: of each limit, to be subtracted.
    """

    returned: Sums
    charges: tuple[LimitCharge, ...]


class Refunded(NamedTuple):
    """The state after a refund.

    Attributes:
        limits: those that got something back.
        updates: what the decision says about each of them.
    """

    ledger: DatasetLedger
    limits: tuple[LimitState, ...]
    updates: tuple[LimitUpdate, ...]


def refund_of_void(
    ledger: DatasetLedger, store: LimitStore, reservation: Reservation, claim: CheckedClaim
) -> Refund:
    """Return what comes back of a reservation that never began: exactly what it was charged.

    Under gdp_residue a cost that depended on the filter's state comes back to that very state
    alone (docs/theory.md, section 3).
    """

    def voided(sums: tuple[str, ...], own: Sums, after: Units | None, now: Units | None) -> Sums:
        return returned_by_voiding(sums, claim, own, same_state=now == after)

    state = state_sum(reservation.sums, ledger.totals)
    returned = voided(reservation.sums, reservation.charged, reservation.after, state)
    charges = []
    for charge in reservation.charges:
        limit = store.get(charge.key)
        counted = None if limit is None else limit.counted
        now = None if counted is None else state_sum(counted.sums, counted.amounts)
        own = voided(charge.counted_sums, charge.counted, charge.after, now)
        charges.append(msgspec.structs.replace(charge, counted=own))
    return Refund(returned, tuple(charges))


def refund_of_session(
    ledger: DatasetLedger, store: LimitStore, reservation: Reservation, shown: str
) -> Refund:
    """Return what comes back of a session that ended at the last level it showed."""
    claim, kind = reservation.claim, ledger.plan.kind

    def unused(sums: tuple[str, ...], own: Sums, settled: frozenset[str]) -> Sums:
        returned = returned_by_session(sums, claim, shown, settled)
        return tuple(map(_smaller, returned, own))

    own = settled_ex_post(
        settles_ex_post=kind.settles_ex_post, beside=isinstance(kind, BesideBasic)
    )
    charges = [
        msgspec.structs.replace(
            charge,
            counted=unused(charge.counted_sums, charge.counted, _settled_at(store, charge)),
            period_used=unused(charge.period_sums, charge.period_used, own),
            used=unused(charge.share_sums, charge.used, own),
        )
        for charge in reservation.charges
    ]
    return Refund(unused(reservation.sums, reservation.charged, own), tuple(charges))


def refund_of_begin(
    ledger: DatasetLedger, store: LimitStore, reservation: Reservation, claim: CheckedClaim
) -> Refund:
    """Return by how much a claim costs less once it can no longer be voided.

    Under gdp_residue a pure mechanism was charged as a Gaussian. At its begin that comes back, and
    it is charged its own cost at the state so reached, which is never more (docs/theory.md P10,
    P11), at each level of that filter. Other filters charge both alike.
    """
    whole = whole_of(ledger.plan)
    returned = _cheaper(whole, ledger.spent, reservation.sums, reservation.charged, claim)
    charges = []
    for charge in reservation.charges:
        limit, rule = store.get(charge.key), _rule_of(store, charge)
        own: Sums = (0,) * len(charge.counted)
        if limit is not None and limit.counted is not None and rule is not None:
            budget = rule.under(ledger.plan).limit
            counts = charge.counted_since == limit.counted.since == rule.counted_since
            if budget is not None and counts:
                amounts = limit.counted.amounts
                own = _cheaper(budget, amounts, charge.counted_sums, charge.counted, claim)
        charges.append(
            msgspec.structs.replace(
                charge,
                counted=own,
                period_used=(0,) * len(charge.period_used),
                used=(0,) * len(charge.used),
            )
        )
    return Refund(returned, tuple(charges))


def _cheaper(
    budget: CompiledLimit, spent: Sums, sums: tuple[str, ...], charged: Sums, claim: CheckedClaim
) -> Sums:
    """Return by how much each charge falls when a claim pays its own cost instead.

    Args:
        spent: of the filter's totals, which are the first of `sums`.
    """
    nothing: Sums = (0,) * len(charged)
    kind, width = budget.kind, len(spent)
    if kind.adds_up or _STATE not in sums:
        return nothing
    place = sums.index(_STATE)
    own = charged[place]
    # Not charged, a Gaussian, or charged by the state: nothing to charge again.
    if not own or own != voidable_mu_squared(claim) or own == price(claim, (_STATE,)).amounts[0]:
        return nothing
    before = after_refund(spent, charged[:width])
    if budget.is_over(before):
        return nothing
    after = kind.charge(budget.capacity, before, price(claim, kind.needs))
    if after is None or _ends(kind, before, after):
        return nothing  # what is charged already is an upper bound of the cost
    cost = after[place] - before[place]
    if not cost < own:
        return nothing
    return tuple([own - cost if i == place else 0 for i in range(len(charged))])


def _ends(kind: Filter, before: Sums, after: Sums) -> bool:
    """Tell whether basic composition alone would admit the claim."""
    return isinstance(kind, BesideBasic) and (bool(before[-1]) or before[-1] != after[-1])


def give_back(
    ledger: DatasetLedger, store: LimitStore, refunded: Refund, at: int, resets: int
) -> Refunded:
    """Return the state after a decision that gives amounts back.

    Args:
        ledger: before the decision.
        at: the decision's time, milliseconds since 1970.
        resets: number of the partition's clock resets.
    """
    after = after_returning(advance(ledger, at), after_refund(ledger.totals, refunded.returned))
    charges = tuple(_still_counted(store, refunded.charges, resets))
    found = [
        (store.get(charge.key), state)
        for charge, state in zip(charges, refund(store, charges, after), strict=True)
    ]
    changed = [(before, state) for before, state in found if _differs(before, state)]
    updates = tuple([_update(store, before, state) for before, state in changed])
    return Refunded(after, tuple([state for _, state in changed]), updates)


def after_returning(ledger: DatasetLedger, totals: Sums) -> DatasetLedger:
    """Return a ledger with lower totals: thresholds stay crossed, but a budget has room again."""
    if totals == ledger.totals:
        return ledger
    plan = ledger.plan
    return msgspec.structs.replace(
        ledger,
        totals=totals,
        exhausted=plan.progress(totals) >= plan.most,
        fractional=Fractional in map(type, totals),
    )


def reduce_charges(reservation: Reservation, refunded: Refund) -> Reservation:
    """Return a reservation with its charges less a refund."""
    return msgspec.structs.replace(
        reservation,
        charged=after_refund(reservation.charged, refunded.returned),
        charges=tuple(
            [
                msgspec.structs.replace(own, counted=after_refund(own.counted, back.counted))
                for own, back in zip(reservation.charges, refunded.charges, strict=True)
            ]
        ),
    )


def _still_counted(
    store: LimitStore, charges: Iterable[LimitCharge], resets: int
) -> Iterator[LimitCharge]:
    """Yield the charges of limits, without what is no longer counted there.

    What another version of a limit counts, or another period, never bore the charge.
    """
    for charge in charges:
        state, rule = store.get(charge.key), _rule_of(store, charge)
        if state is None or rule is None:
            continue
        left: dict[str, Sums] = {}
        if charge.counted_since != rule.counted_since:
            left["counted"] = ()
        if charge.shared_since != rule.shared_since:
            left["used"] = ()
        begins_at, periods = charge.begins_at, rule.periods
        same = periods is not None and periods.begin(periods.number(begins_at)) == begins_at
        if charge.resets != resets or not same:
            left["period_used"] = ()
        yield msgspec.structs.replace(charge, **left) if left else charge


def _rule_of(store: LimitStore, charge: LimitCharge) -> LimitRule | None:
    """Return the rule that counts a charge: the limit's own, or its team's default."""
    dataset, scope, team, _ = charge.key
    state = store.get((dataset, "each", "", team) if scope == "each" else charge.key)
    return None if state is None else state.rule


def _settled_at(store: LimitStore, charge: LimitCharge) -> frozenset[str]:
    """Return which sums of a limit an ex-post claim's settlement lowers, by the limit's filter."""
    rule = _rule_of(store, charge)
    if rule is None or not rule.kind:
        return frozenset()
    name, *parameters = rule.kind.split(";")
    beside = f"beside={BESIDE}" in parameters
    return settled_ex_post(settles_ex_post=FILTERS[name].settles_ex_post, beside=beside)


def _smaller(one: Units, other: Units) -> Units:
    if isinstance(one, float) or isinstance(other, float):
        return 0 if other == INFINITE else min(one, other)
    return one if parts_of(one) <= parts_of(other) else other


def _differs(before: LimitState | None, after: LimitState) -> bool:
    return before is not None and (
        (before.counted, before.period_usage, before.used)
        != (after.counted, after.period_usage, after.used)
    )


def _update(store: LimitStore, before: LimitState | None, state: LimitState) -> LimitUpdate:
    """Return what a decision says about a limit that got something back."""
    assert before is not None
    dataset, scope, team, name = state.key
    limit = store.get((dataset, "each", "", team)) if scope == "each" else state
    rule = None if limit is None else limit.rule
    assert rule is not None
    totals = rounded_up = paced = paced_rounded_up = used = used_rounded_up = window = None
    if state.counted is not None and state.counted != before.counted:
        totals, rounded_up = texts_of(state.counted.sums, state.counted.amounts)
    if state.period_usage is not None and state.period_usage != before.period_usage:
        assert rule.periods is not None
        window = rule.periods.number(state.period_usage.begins_at)
        paced, paced_rounded_up = texts_of(state.period_usage.sums, state.period_usage.amounts)
    if state.used is not None and state.used != before.used:
        used, used_rounded_up = texts_of(state.used.sums, state.used.amounts)
    return LimitUpdate(
        scope,
        (team if scope == "each" else name) or None,
        rule.record.version,
        totals,
        rounded_up,
        (),
        None,
        window,
        paced,
        paced_rounded_up,
        used,
        used_rounded_up,
    )
