"""The states of limits after a grant that all budgets admit, and after its refund."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import gt
from typing import Final

import msgspec

from accountant.amounts import INFINITE, Units
from accountant.claims.price import Price
from accountant.dataset_ledger import DatasetLedger
from accountant.limits.applicable_limits import ApplicableLimit, ApplicableLimits
from accountant.limits.reserved_totals import Sums, minus, plus, smaller
from accountant.limits.state import (
    Count,
    Key,
    LimitRule,
    LimitState,
    PeriodUsage,
    texts_of,
    unused_of,
)
from accountant.limits.store import LimitOverlay, LimitStore
from accountant.limits.thresholds import crossed_by, reported_after, reported_before
from accountant.records.limit_records import LimitUpdate, Texts

_NOTHING: Final[Sums] = ()
_NO_TEXTS: Final[tuple[Texts | None, Texts | None]] = None, None


class ChargedLimit(msgspec.Struct, frozen=True, gc=False):
    """A limit that a grant was charged to.

    Attributes:
        before: the state before the grant; `sequence` 0 if it has no row yet.
        after: the state after the grant.
        rule: the rule that applied.
        update: what the decision says about this limit.
    """

    before: LimitState
    after: LimitState
    rule: LimitRule
    update: LimitUpdate


def charge(
    limits: ApplicableLimits, ledger: DatasetLedger, asked: Price, used: Iterable[Sums]
) -> tuple[ChargedLimit, ...]:
    """Return every applicable limit after a grant. Pure: the stored states stay as they are.

    Args:
        ledger: the dataset before the grant.
        asked: the cost of the claim to the dataset.
        used: the usage of each of `limits.budgets` after the grant, in their order.
    """
    plan, sequence, rest = ledger.plan, ledger.sequence + 1, iter(used)
    cost = asked.amounts[: plan.width]
    charged: list[ChargedLimit] = []
    for each in limits.limits:
        if limits.former_team is not None and each.state.scope == "analyst":
            charged.append(_charge_former_team(limits, limits.former_team, cost, sequence))
        charged.append(
            _charge_limit(each, rest, cost, sequence, limits.resets, plan.policy.alert_at)
        )
    return tuple(charged)


def _charge_limit(
    applied: ApplicableLimit,
    used: Iterator[Sums],
    cost: Sums,
    sequence: int,
    resets: int,
    alert_at: tuple[str, ...],
) -> ChargedLimit:
    before, rule, (limit, period_limit) = applied.state, applied.rule, applied.compiled
    counted, period_usage, share = before.counted, before.period_usage, before.used
    totals = of_period = of_share = _NO_TEXTS
    crossed, spent_ratio, reported, period = tuple[str, ...](), None, before.reported, None
    if limit is not None:
        counted = Count(rule.counted_since, limit.kind.state, next(used))
        totals = texts_of(counted.sums, counted.amounts)
        spent = applied.counted, counted.amounts
        crossed = crossed_by(before, rule, limit, alert_at, *spent)
        if crossed:
            known = reported_before(before, rule, limit, applied.counted)
            spent_ratio = limit.spent_ratio(counted.amounts)
            reported = reported_after(alert_at, known, crossed)
    if period_limit is not None:
        assert rule.periods is not None
        period = applied.period
        period_usage = PeriodUsage(
            rule.periods.begin(period), period_limit.kind.state, next(used), resets
        )
        of_period = texts_of(period_usage.sums, period_usage.amounts)
    if rule.share:
        share = _share_after(rule, before, cost)
        of_share = texts_of(share.sums, share.amounts)
    record, unused = rule.record, unused_of(before.rule, share)
    update = LimitUpdate(
        *(record.scope, record.name, record.version),
        *totals,
        crossed,
        spent_ratio,
        period,
        *of_period,
        *of_share,
    )
    after = before.after_grant(sequence, counted, period_usage, share, unused, reported)
    return ChargedLimit(before, after, rule, update)


def _charge_former_team(
    limits: ApplicableLimits, team: LimitState, cost: Sums, sequence: int
) -> ChargedLimit:
    """Charge the former team, whose share still contains the share of this analyst.

    The team's share must shrink by as much as the analyst's. Otherwise the team could promise the
    same amount again.
    """
    rule = team.rule
    assert rule is not None
    share = _share_after(rule, team, smaller(cost, limits.own_unused))
    record, (used, rounded_up) = rule.record, texts_of(share.sums, share.amounts)
    update = LimitUpdate(
        *(record.scope, record.name, record.version), used=used, used_rounded_up=rounded_up
    )
    after = team.after_grant(
        *(sequence, team.counted, team.period_usage, share, unused_of(rule, share)), team.reported
    )
    return ChargedLimit(team, after, rule, update)


def _share_after(rule: LimitRule, state: LimitState, amounts: Sums) -> Count:
    used = state.used.amounts if state.used is not None else _NOTHING
    return Count(rule.shared_since, rule.share_sums, plus(used, amounts))


def state_sum(sums: tuple[str, ...], amounts: Sums) -> Units | None:
    """Return the spent part of gdp_residue's state, None for the sums of another filter."""
    return amounts[sums.index("mu_squared")] if "mu_squared" in sums else None


class LimitCharge(msgspec.Struct, frozen=True, gc=False):
    """The amounts that one grant was charged at one limit, for a later refund.

    Attributes:
        key: of the limit.
        counted, period_used, used: charged to the limit, its period, and its share.
        counted_since, shared_since: version since which they are counted.
        begins_at, resets: the period, as in `PeriodUsage`.
        counted_sums, period_sums, share_sums: names of the amounts of each.
        after: as of `Reservation`, of a limit with a filter of its own.
    """

    key: Key
    counted: Sums = ()
    counted_since: int = 0
    period_used: Sums = ()
    begins_at: int = 0
    resets: int = 0
    used: Sums = ()
    shared_since: int = 0
    counted_sums: tuple[str, ...] = ()
    period_sums: tuple[str, ...] = ()
    share_sums: tuple[str, ...] = ()
    after: Units | None = None


def charges_of(limits: ApplicableLimits, charged: Iterable[ChargedLimit]) -> list[LimitCharge]:
    """Return the exact amounts that a grant was charged at each limit.

    Args:
        limits: those that applied to the request.
    """
    applied = {each.state.key: each for each in limits.limits}
    return [
        charge_of(each.before, each.after, each.rule, each.update, applied.get(each.after.key))
        for each in charged
    ]


def charge_of(
    before: LimitState,
    after: LimitState,
    rule: LimitRule,
    update: LimitUpdate,
    limit: ApplicableLimit | None,
) -> LimitCharge:
    """Return the exact amounts that a grant was charged at one limit.

    Args:
        rule: the rule that applied.
        update: what the grant's decision says about the limit.
        limit: the limit as it applied to the request, with what counted of its usage; None where
            it is a former team's, of which the share alone was charged.
    """
    found: dict[str, object] = {}
    if update.totals is not None:
        assert limit is not None
        assert after.counted is not None
        counted = growth(limit.counted, after.counted.amounts)
        found |= {
            "counted": counted,
            "counted_since": rule.counted_since,
            "counted_sums": after.counted.sums,
            "after": state_sum(after.counted.sums, after.counted.amounts),
        }
    if update.paced is not None:
        assert limit is not None
        assert after.period_usage is not None
        found |= {
            "period_used": growth(limit.period_used, after.period_usage.amounts),
            "begins_at": after.period_usage.begins_at,
            "resets": after.period_usage.resets,
            "period_sums": after.period_usage.sums,
        }
    if update.used is not None:
        assert after.used is not None
        used = before.used.amounts if before.used is not None else _NOTHING
        found |= {
            "used": minus(after.used.amounts, used),
            "shared_since": rule.shared_since,
            "share_sums": after.used.sums,
        }
    return LimitCharge(after.key, **found)  # type: ignore[arg-type]


def refund(
    store: LimitStore, charges: Iterable[LimitCharge], ledger: DatasetLedger
) -> tuple[LimitState, ...]:
    """Return the limits after a refund. Pure: the stored states stay as they are.

    The inverse of `charge`, by the same exact amounts, fractions of a unit included:

    - A refund lowers only the count that was charged. It does so even if the limit was removed
      since. If another filter counts now, or the share is a new one, it lowers nothing.
    - A refund lowers a period's usage only while that period is the limit's latest. A later period
      never bore the charge: lowering its usage would admit more than its budget. The same holds
      after a clock reset that moved the period.
    - A refund lowers the usage of shares only if the dataset can still keep every promise: spent
      and reserved amounts together fit the budget, in each sum. Otherwise the shares stay used,
      and the amount becomes available to everybody (docs/theory.md, section 3).
    - An infinite amount is never refunded.

    The caller decides how much to refund (`accountant.filters.settlement`). It refunds nothing of a
    cost that depended on the ledger's state.

    Args:
        store: the current states.
        ledger: the dataset after the refund, which is its decision.
    """
    found = [(store.get(each.key), each) for each in charges]
    pairs = [(state, each) for state, each in found if state is not None]
    after = [_less(state, each, ledger.sequence, shares=True) for state, each in pairs]
    trial = LimitOverlay(store)
    for state in after:
        trial.put(state)
    promised = plus(ledger.spent, trial.reserved(ledger.dataset))
    if any(map(gt, promised, ledger.plan.limits)):
        after = [_less(state, each, ledger.sequence, shares=False) for state, each in pairs]
    return tuple(after)


def _less(state: LimitState, charge: LimitCharge, sequence: int, *, shares: bool) -> LimitState:
    counted, period_used, used, unused = state.counted, state.period_usage, state.used, state.unused
    if counted is not None and charge.counted and counted.since == charge.counted_since:
        counted = Count(counted.since, counted.sums, after_refund(counted.amounts, charge.counted))
    if period_used is not None and charge.period_used and _is_period_of(period_used, charge):
        amounts = after_refund(period_used.amounts, charge.period_used)
        period_used = PeriodUsage(
            period_used.begins_at, period_used.sums, amounts, period_used.resets
        )
    if shares and used is not None and charge.used and used.since == charge.shared_since:
        used = Count(used.since, used.sums, after_refund(used.amounts, charge.used))
        unused = unused_of(state.rule, used)
    return state.after_grant(sequence, counted, period_used, used, unused, state.reported)


def _is_period_of(paced: PeriodUsage, charge: LimitCharge) -> bool:
    return (paced.begins_at, paced.resets) == (charge.begins_at, charge.resets)


def growth(before: Sums, after: Sums) -> Sums:
    """Return what each amount has grown by, exactly; infinite where it is infinite now."""
    return tuple([b if b == INFINITE else b - a for a, b in zip(before, after, strict=True)])


def after_refund(amounts: Sums, charged: Sums) -> Sums:
    """Return amounts after a refund; an infinite amount is never refunded."""
    return tuple([_without(a, c) for a, c in zip(amounts, charged, strict=True)])


def _without(amount: Units, charged: Units) -> Units:
    return amount if INFINITE in (amount, charged) else amount - charged
