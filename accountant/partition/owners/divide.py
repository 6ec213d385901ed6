"""Decide an owner's record that divides a dataset's budget, once the owner may make it."""

from __future__ import annotations

from operator import gt

import msgspec

from accountant.ledger import Ledger
from accountant.ledger.adjudicate import Verdict, moved
from accountant.ledger.levels.level import Level
from accountant.ledger.levels.setting import is_possible, level_after_setting, told_of
from accountant.ledger.levels.shares import plus
from accountant.partition.level_table import Places, shares_after
from accountant.records import SetLimit
from accountant.records.limits.limits import MOST_LIMITS
from accountant.records.outcomes import Outcome, Reason


def divide(
    ledger: Ledger, levels: Places, record: SetLimit, team: str, at: int
) -> tuple[Ledger, Verdict, Level | None]:
    """Return the ledger after a record, the verdict, and the level from then on.

    Args:
        team: of an analyst, in force at this time; "" for none.
        at: the decision's time, milliseconds since 1970.
    Returns: None for the level where the record is refused.
    """
    before = levels.get((ledger.dataset, record.scope, "", record.name or ""))
    was_in_force = before is not None and before.is_in_force
    reason = _refusal(ledger, record, was_in_force)
    if reason is not None:
        return moved(ledger, at), Verdict(Outcome.REFUSED, reason), None
    rule = None if before is None else before.rule
    version = 1 if rule is None else rule.told.version + 1
    told = told_of(record, ledger.plan, version, team or None)
    sequence = ledger.sequence + 1
    level = level_after_setting(before, ledger.dataset, told, ledger.plan, at, sequence)
    if level.share and _is_over_reserved(ledger, levels, before, level):
        return moved(ledger, at), Verdict(Outcome.REFUSED, Reason.OVER_RESERVED), None
    if not was_in_force and level.is_in_force and ledger.limits >= MOST_LIMITS:
        return moved(ledger, at), Verdict(Outcome.REFUSED, Reason.TOO_MANY_LIMITS), None
    after = msgspec.structs.replace(
        moved(ledger, at),
        levels=ledger.levels + (before is None),
        limits=ledger.limits + level.is_in_force - was_in_force,
    )
    outcome = Outcome.LIMIT_SET if level.is_in_force else Outcome.LIMIT_REMOVED
    return after, Verdict(outcome), level


def _refusal(ledger: Ledger, record: SetLimit, is_in_force: bool) -> Reason | None:
    if ledger.closed:
        return Reason.CLOSED
    if record.follows is not None and record.follows != ledger.sequence:
        return Reason.OUT_OF_DATE
    if record.removes and not is_in_force:
        return Reason.UNKNOWN_LIMIT
    return None if is_possible(record, ledger.plan) else Reason.LIMIT_NOT_POSSIBLE


def _is_over_reserved(ledger: Ledger, levels: Places, before: Level | None, level: Level) -> bool:
    """Tell whether more would be promised than is there, or to analysts than to their team."""
    shares = shares_after(levels, before, level)
    if any(map(gt, plus(ledger.spent, shares.withheld), ledger.plan.capacity)):
        return True
    team = level.name if level.scope == "team" else level.within
    place = ledger.dataset, team
    crew = level if level.scope == "team" else levels.get((ledger.dataset, "team", "", team))
    if not team or crew is None or not crew.share:
        return False
    booked = shares.booked.get(place) or levels.booked(*place)
    return any(map(gt, booked.whole, crew.share))
