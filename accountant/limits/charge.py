"""The limits after a grant that all budgets admit, and after what it was charged comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import gt
from typing import Final

import msgspec

from accountant.amounts import INFINITE, Units
from accountant.claims.price import Price
from accountant.ledger.ledger import Ledger
from accountant.limits.applicable_limits import ApplicableLimit, ApplicableLimits
from accountant.limits.reserved_totals import Sums, minus, plus, smaller
from accountant.limits.state import Count, Key, Level, LimitState, PeriodUsage, texts_of, unused_of
from accountant.limits.store import LimitOverlay, LimitStore
from accountant.limits.wire import LevelMoved, Texts

_NOTHING: Final[Sums] = ()
_NO_TEXTS: Final[tuple[Texts | None, Texts | None]] = None, None


class ChargedLevel(msgspec.Struct, frozen=True, gc=False):
    """A level after a grant.

    Attributes:
        before: as it was; the number of one that has no row yet is 0.
        level: as the grant leaves it.
        rule: the limit that it was charged by.
        moved: its part of the decision.
    """

    before: Level
    level: Level
    rule: LimitState
    moved: LevelMoved


def charge(
    limits: ApplicableLimits, ledger: Ledger, asked: Price, used: Iterable[Sums]
) -> tuple[ChargedLevel, ...]:
    """Return every level after a grant; none is changed.

    Args:
        ledger: the dataset before it.
        asked: what the claim costs the dataset.
        used: what was used of each of `limits.budgets` after it, in their order.
    """
    plan, sequence, rest = ledger.plan, ledger.sequence + 1, iter(used)
    cost = asked.amounts[: plan.width]
    found: list[ChargedLevel] = []
    for each in limits.limits:
        if limits.former_team is not None and each.level.scope == "analyst":
            found.append(_former_team(limits, limits.former_team, cost, sequence))
        found.append(_level(each, rest, cost, sequence, limits.resets, plan.policy.alert_at))
    return tuple(found)


def _level(
    each: ApplicableLimit,
    used: Iterator[Sums],
    cost: Sums,
    sequence: int,
    resets: int,
    alert_at: tuple[str, ...],
) -> ChargedLevel:
    before, rule, (limit, pace) = each.level, each.rule, each.compiled
    counted, paced, share = before.counted, before.paced, before.used
    totals = of_period = of_share = _NO_TEXTS
    crossed, window = tuple[str, ...](), None
    if limit is not None:
        counted = Count(rule.counted_since, limit.kind.state, next(used))
        totals = texts_of(counted.sums, counted.amounts)
        crossed = tuple([alert_at[i] for i in limit.crossed(each.counted, counted.amounts)])
    if pace is not None:
        assert rule.periods is not None
        window = each.window
        paced = PeriodUsage(rule.periods.begin(window), pace.kind.state, next(used), resets)
        of_period = texts_of(paced.sums, paced.amounts)
    if rule.share:
        share = _used_share(rule, before, cost)
        of_share = texts_of(share.sums, share.amounts)
    record, unused = rule.record, unused_of(before.rule, share)
    moved = LevelMoved(
        *(record.scope, record.name, record.version),
        *totals,
        crossed,
        window,
        *of_period,
        *of_share,
    )
    level = before.moved(sequence, counted, paced, share, unused)
    return ChargedLevel(before, level, rule, moved)


def _former_team(limits: ApplicableLimits, team: Level, cost: Sums, sequence: int) -> ChargedLevel:
    """Use an analyst's share within that of a team which the analyst has left since.

    The team's share must shrink by as much as the analyst's: it would else be promised once more.
    """
    rule = team.rule
    assert rule is not None
    share = _used_share(rule, team, smaller(cost, limits.own_unused))
    record, (used, rounded_up) = rule.record, texts_of(share.sums, share.amounts)
    moved = LevelMoved(
        *(record.scope, record.name, record.version), used=used, used_rounded_up=rounded_up
    )
    level = team.moved(sequence, team.counted, team.paced, share, unused_of(rule, share))
    return ChargedLevel(team, level, rule, moved)


def _used_share(rule: LimitState, level: Level, amounts: Sums) -> Count:
    used = level.used.amounts if level.used is not None else _NOTHING
    return Count(rule.shared_since, rule.share_sums, plus(used, amounts))


class LevelCharge(msgspec.Struct, frozen=True, gc=False):
    """What one grant was charged at one level: a reservation keeps it for its refund.

    Attributes:
        key: of the level.
        counted, paced, used: the amounts under its limit, in its period, of its share.
        counted_since, shared_since: version from which on they are counted.
        begins_at, resets: which period, as of `PeriodUsage`.
    """

    key: Key
    counted: Sums = ()
    counted_since: int = 0
    paced: Sums = ()
    begins_at: int = 0
    resets: int = 0
    used: Sums = ()
    shared_since: int = 0


def charges_of(limits: ApplicableLimits, charged: Iterable[ChargedLevel]) -> list[LevelCharge]:
    """Return what a grant was charged at each level, exactly.

    Args:
        limits: those that applied to the request.
    """
    applied = {each.level.key: each for each in limits.limits}
    return [_charge_of(each, applied.get(each.level.key)) for each in charged]


def _charge_of(charged: ChargedLevel, limit: ApplicableLimit | None) -> LevelCharge:
    before, level, rule = charged.before, charged.level, charged.rule
    found: dict[str, object] = {}
    if limit is not None and limit.compiled.limit is not None:
        assert level.counted is not None
        counted = _grown(limit.counted, level.counted.amounts)
        found |= {"counted": counted, "counted_since": rule.counted_since}
    if limit is not None and limit.compiled.pace is not None:
        assert level.paced is not None
        paced = _grown(limit.paced, level.paced.amounts)
        found |= {"paced": paced, "begins_at": level.paced.begins_at, "resets": level.paced.resets}
    if rule.share and level.used is not None:
        used = before.used.amounts if before.used is not None else _NOTHING
        used = minus(level.used.amounts, used)
        found |= {"used": used, "shared_since": rule.shared_since}
    return LevelCharge(level.key, **found)  # type: ignore[arg-type]


def refund(store: LimitStore, charges: Iterable[LevelCharge], ledger: Ledger) -> tuple[Level, ...]:
    """Return the levels after what a grant was charged comes back to them; none is changed.

    The inverse of `charge`, by the same exact amounts, fractions of a unit included:

    - An amount comes back to the very count that was charged, also where its limit was removed
      since; where another filter counts now, or the share is another one, nowhere.
    - An amount comes back to a period only while that period is the level's latest. A refund in a
      later period than the charge lowers nothing there: that period never bore the charge, and
      would else admit more than its budget. So it is after a clock reset that moved the period.
    - Shares are used less only if all that is promised afterwards is still there: spent and
      reserved within the budget, in each sum. Otherwise they stay used, and the amount is
      everybody's (docs/theory.md, section 3).
    - An infinite amount never comes back.

    How much comes back is the caller's ruling (`accountant.ledger.settlement`): nothing of a cost
    that depended on the state it found.

    Args:
        store: the levels as they are now.
        ledger: the dataset after the refund, whose decision this is.
    """
    found = [(store.get(each.key), each) for each in charges]
    pairs = [(level, each) for level, each in found if level is not None]
    after = [_less(level, each, ledger.sequence, shares=True) for level, each in pairs]
    trial = LimitOverlay(store)
    for level in after:
        trial.put(level)
    promised = plus(ledger.spent, trial.reserved(ledger.dataset))
    if any(map(gt, promised, ledger.plan.capacity)):
        after = [_less(level, each, ledger.sequence, shares=False) for level, each in pairs]
    return tuple(after)


def _less(level: Level, charge: LevelCharge, sequence: int, *, shares: bool) -> Level:
    counted, paced, used, unused = level.counted, level.paced, level.used, level.unused
    if counted is not None and charge.counted and counted.since == charge.counted_since:
        counted = Count(counted.since, counted.sums, after_refund(counted.amounts, charge.counted))
    if paced is not None and charge.paced and _is_period_of(paced, charge):
        amounts = after_refund(paced.amounts, charge.paced)
        paced = PeriodUsage(paced.begins_at, paced.sums, amounts, paced.resets)
    if shares and used is not None and charge.used and used.since == charge.shared_since:
        used = Count(used.since, used.sums, after_refund(used.amounts, charge.used))
        unused = unused_of(level.rule, used)
    return level.moved(sequence, counted, paced, used, unused)


def _is_period_of(paced: PeriodUsage, charge: LevelCharge) -> bool:
    return (paced.begins_at, paced.resets) == (charge.begins_at, charge.resets)


def _grown(before: Sums, after: Sums) -> Sums:
    return tuple([b if b == INFINITE else b - a for a, b in zip(before, after, strict=True)])


def after_refund(amounts: Sums, charged: Sums) -> Sums:
    """Return amounts after what was charged comes back; an infinite amount never does."""
    return tuple([_without(a, c) for a, c in zip(amounts, charged, strict=True)])


def _without(amount: Units, charged: Units) -> Units:
    return amount if INFINITE in (amount, charged) else amount - charged
