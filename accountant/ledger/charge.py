"""A claim at every level: all are checked before any is charged."""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.amounts import format_units
from accountant.claims import CheckedClaim
from accountant.claims.price import Price
from accountant.fractional import Fractional
from accountant.ledger import Ledger
from accountant.ledger.budgets import never_fits
from accountant.limits.applicable import ApplicableLimit, ApplicableLimits
from accountant.limits.reserved import Sums, plus, smaller
from accountant.limits.state import Count, Level, Paced, excess_of, unused_of
from accountant.limits.wire import LevelNamed, What
from accountant.records import encode
from accountant.records.outcomes import Reason

_CROSSED: Final = ',"crossed":'


class Denial(NamedTuple):
    """Why a request is refused that the dataset itself would take, and which level refuses it."""

    reason: Reason
    level: LevelNamed
    standing: ApplicableLimits


class Charge(NamedTuple):
    """The levels after a grant.

    Attributes:
        told: as its decision tells them, in JSON with a comma between.
        new: how many have no row yet.
        crossed: whether one of them has reached a threshold.
    """

    levels: tuple[Level, ...] = ()
    told: str = ""
    new: int = 0
    crossed: bool = False


def charge(
    standing: ApplicableLimits, ledger: Ledger, claim: CheckedClaim, asked: Price
) -> Charge | Denial:
    """Return every level after a claim, or the first that does not take it; none is changed.

    Args:
        ledger: the dataset before it, whose own filter admits the claim.
        asked: what the claim costs the dataset.
    """
    plan = ledger.plan
    for each in standing.limits:
        limit = each.bounds.limit
        if limit is None or not limit.own:
            continue
        if never_fits(limit.kind, limit.capacity, claim, limit.price(claim, asked)):
            return Denial(Reason.CLAIM_NOT_ACCEPTED, _named(each, "limit"), standing)
    others = standing.others
    if others and plan.kind.charge(plan.capacity, plus(ledger.spent, others), asked) is None:
        return Denial(Reason.EXHAUSTED, LevelNamed("dataset", None, "reserved"), standing)
    after: list[tuple[ApplicableLimit, Sums, Sums]] = []
    for each in standing.limits:
        counted, paced = each.counted, each.paced
        limit, pace = each.bounds.limit, each.bounds.pace
        if limit is not None:
            charged = limit.charge(counted, limit.price(claim, asked))
            if charged is None:
                return Denial(Reason.EXHAUSTED, _named(each, "limit"), standing)
            counted = charged
        if pace is not None:
            charged = pace.charge(paced, asked)
            if charged is None:
                return Denial(Reason.EXHAUSTED, _named(each, "pace"), standing)
            paced = charged
        after.append((each, counted, paced))
    return _charged(standing, ledger, asked, after)


def _named(each: ApplicableLimit, what: What) -> LevelNamed:
    told = each.rule.record
    return LevelNamed(told.scope, told.name, what)


def _charged(
    standing: ApplicableLimits,
    ledger: Ledger,
    asked: Price,
    after: list[tuple[ApplicableLimit, Sums, Sums]],
) -> Charge:
    plan, sequence, resets = ledger.plan, ledger.sequence + 1, standing.resets
    cost = asked.amounts[: plan.width]
    levels: list[Level] = []
    told: list[str] = []
    new = 0
    for each, counted, paced in after:
        if standing.elsewhere is not None and each.level.scope == "analyst":
            elsewhere, text = _used_elsewhere(standing, cost, plan.kind.state, sequence)
            levels.append(elsewhere)
            told.append(text)
        level, text = _moved(each, counted, paced, cost, sequence, resets, plan.policy.alert_at)
        levels.append(level)
        told.append(text)
        new += not each.level.sequence  # only the first use under a default has no row yet
    # In what is told, since few grants cross anything: names of levels hold no quotation marks.
    text = ",".join(told)
    return Charge(tuple(levels), text, new, _CROSSED in text)


def _moved(
    each: ApplicableLimit,
    counted: Sums,
    paced: Sums,
    cost: Sums,
    sequence: int,
    resets: int,
    alert_at: tuple[str, ...],
) -> tuple[Level, str]:
    """Return a level after a grant, and the text of a `LevelMoved`: names need no escapes."""
    level, rule, limit, pace = each.level, each.rule, each.bounds.limit, each.bounds.pace
    total, period, used, withheld = level.counted, level.paced, level.used, level.withheld
    text = rule.head
    if limit is not None:
        total = Count(rule.counted_since, limit.kind.state, counted)
        text += _told(',"totals":', ',"rounded_up":', limit.form, total)
        crossed = limit.crossed(each.counted, counted)
        if crossed:
            text += f"{_CROSSED}{encode([alert_at[i] for i in crossed]).decode()}"
    if pace is not None:
        assert rule.periods is not None
        period = Paced(rule.periods.begin(each.window), pace.kind.state, paced, resets)
        text += f',"window":{each.window}'
        text += _told(',"paced":', ',"paced_rounded_up":', pace.form, period)
    if rule.share:
        used = Count(rule.shared_since, rule.share_sums, _more(level, cost))
        withheld = unused_of(rule, used)
        text += _told_of_share(used)
    return (
        level.moved(sequence, total, period, used, withheld),
        text + "}",
    )


def _used_elsewhere(
    standing: ApplicableLimits, cost: Sums, sums: tuple[str, ...], sequence: int
) -> tuple[Level, str]:
    """Use an analyst's share within that of a team which the analyst has left since.

    The team's share must shrink by as much as the analyst's: it would else be promised once more.
    """
    team = standing.elsewhere
    assert team is not None
    rule = team.rule
    assert rule is not None
    used = Count(rule.shared_since, sums, _more(team, smaller(cost, standing.own)))
    withheld = unused_of(rule, used)
    level = team.moved(sequence, team.counted, team.paced, used, withheld)
    return level, f"{rule.head}{_told_of_share(used)}}}"


def _more(level: Level, amounts: Sums) -> Sums:
    return plus(level.used.amounts if level.used is not None else (), amounts)


def _told_of_share(used: Count) -> str:
    form = ",".join([f'"{name}":"%s"' for name in used.sums])
    return _told(',"used":', ',"used_rounded_up":', f"{{{form}}}", used)


def _told(name: str, rounded_up: str, form: str, count: Count | Paced) -> str:
    amounts = count.amounts
    text = name + form % tuple(map(format_units, amounts))
    if Fractional in map(type, amounts):
        return f"{text}{rounded_up}{encode(excess_of(count.sums, amounts)).decode()}"
    return text
