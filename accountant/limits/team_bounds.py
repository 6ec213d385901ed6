"""How far a lead may go with an analyst's limit: as far as the team's own, and its share."""

from __future__ import annotations

from operator import gt

from accountant.amounts import Units
from accountant.fractional import parts_of
from accountant.limits.compiled_limit import amounts_of
from accountant.limits.state import LimitState
from accountant.limits.store import LimitStore, reserved_after
from accountant.records.limit_records import Texts, days_of


def is_outside(limit: LimitState | None, team: str) -> bool:
    """Tell whether an analyst's limit has a share that is not within a team's."""
    return limit is not None and bool(limit.share) and limit.within != team


def goes_beyond(store: LimitStore, before: LimitState | None, after: LimitState, team: str) -> bool:
    """Tell whether a lead's change of an analyst's limit goes beyond the limit of the team.

    Its amounts are at most the team's, in the sums of one filter. A share lies within the team's,
    ends no later, and withholds nothing more from others: a share that is used up, and given to
    somebody else once more, would. Without a limit of its own, the team has the whole budget. The
    pace of the default for each analyst stays, since the analyst's limit replaces the default.
    """
    if is_outside(before, team) or is_outside(after, team):
        return True
    if _lifts_pace(store.get((after.dataset, "each", "", team)), after):
        return True
    limit = store.get((after.dataset, "team", "", team))
    if after.share and (limit is None or _adds_to_share(store, before, after, limit)):
        return True
    if limit is None or limit.rule is None or after.rule is None or not limit.is_in_force:
        return False
    own, most = after.rule.record, limit.rule.record
    if own.limits and most.limits and after.rule.kind != limit.rule.kind:
        return True
    paces = [None if each.pace is None else each.pace.budget for each in (own, most)]
    return _is_above(own.budget, most.budget) or _is_above(*paces)


def _lifts_pace(default: LimitState | None, after: LimitState) -> bool:
    """Tell whether a limit has a larger pace than the default that it replaces, or none."""
    if default is None or default.rule is None or after.rule is None:
        return False
    pace, own = default.rule.record.pace, after.rule.record.pace
    if pace is None or not default.is_in_force or not after.is_in_force:
        return False
    # In fewer days the same amount is a larger pace.
    if own is None or days_of(own.period) < days_of(pace.period):
        return True
    return _is_above(own.budget, pace.budget)


def _adds_to_share(
    store: LimitStore, before: LimitState | None, after: LimitState, limit: LimitState
) -> bool:
    if not limit.share:
        return True
    if limit.until is not None and (after.until is None or after.until > limit.until):
        return True
    withheld, then = store.reserved(after.dataset), reserved_after(store, before, after).total
    return any(map(gt, map(_parts, then), map(_parts, withheld)))


def _parts(amount: Units) -> int:
    assert isinstance(amount, int)  # whatever a share is of is finite
    return parts_of(amount)


def _is_above(own: Texts | None, most: Texts | None) -> bool:
    if own is None or most is None:
        return False
    return any(map(gt, amounts_of(own), amounts_of(most)))
