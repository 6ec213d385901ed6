"""Decide an admin record, and take what it changes beside its dataset into the draft."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import gt
from typing import Any, Final

import msgspec

from accountant.asks.answers import take_ask
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import Verdict, advance
from accountant.ledger.administer import DatasetRecord, administer, open_dataset
from accountant.limits.applicable_limits import team_of
from accountant.limits.apply import apply_record, is_possible, limit_record_of
from accountant.limits.reserved_totals import any_reserved, plus
from accountant.limits.state import LimitState
from accountant.limits.store import LimitStore, reserved_after
from accountant.limits.team_bounds import goes_beyond, is_outside
from accountant.limits.thresholds import reached_limits
from accountant.members.permits import may_decide, may_send, team_led
from accountant.partition.approvals import clock_of
from accountant.partition.ask_records import answer, refused_ask, why_no_answer
from accountant.partition.draft import Draft
from accountant.partition.lifetimes import lifetime_of_opening
from accountant.partition.outside_records import decide_record
from accountant.partition.renewals import decide_renewal
from accountant.partition.reservation_records import decide_resolve
from accountant.partition.several_datasets import PartResult
from accountant.policy import resolve
from accountant.records import AdminRecord
from accountant.records.limit_records import MAX_LIMITS
from accountant.records.members import (
    MAX_MEMBERS,
    Member,
    MemberRow,
    member_row,
    owner_rows,
    sort_roles,
)
from accountant.records.outcomes import Outcome, Reason
from accountant.records.person_pauses import pause_of
from accountant.records.requests import (
    AskMore,
    DeclineAsk,
    Open,
    RecordRelease,
    Renew,
    Resolve,
    SetLimit,
    SetMember,
)
from accountant.times import from_iso

AdminVerdict = tuple[DatasetLedger, Verdict, dict[str, object]]
"""The ledger after a record, the verdict, and the decision's extra fields."""


def decide_admin(
    draft: Draft, ledger: DatasetLedger | None, record: AdminRecord
) -> tuple[PartResult, ...]:
    """Decide an admin request on a dataset that exists, or that it opens.

    Precedence: already_opened, not_permitted, unknown_ask, other_ask, then that of each kind of
    record.

    Returns: its result, and that of another dataset where it changes both.
    """
    if isinstance(record, Open):
        return (_result(ledger, _open(draft, ledger, record)),)
    assert ledger is not None
    at, lookup = draft.decided_at, partial(draft.members.get, record.dataset)
    may = may_send(ledger.plan.policy, lookup, record, at)
    reason = why_no_answer(draft, ledger, record) if may else Reason.NOT_PERMITTED
    if reason is not None:
        refused = Verdict(Outcome.REFUSED, reason)
        return (PartResult(ledger, advance(ledger, at), refused, {}),)
    several = RULES_OF_SEVERAL.get(type(record))
    if several is not None:
        return several(draft, ledger, record)
    after, verdict, extra = RULES.get(type(record), _administer)(draft, ledger, record)
    if verdict.outcome.is_applied:
        extra |= answer(draft, record, after.sequence)
    return (_result(ledger, (after, verdict, extra)),)


def _result(ledger: DatasetLedger | None, verdict: AdminVerdict) -> PartResult:
    return PartResult(ledger or verdict[0], *verdict)


def _open(draft: Draft, ledger: DatasetLedger | None, record: Open) -> AdminVerdict:
    if ledger is not None:
        refused = advance(ledger, draft.decided_at)
        return refused, Verdict(Outcome.REFUSED, Reason.ALREADY_OPENED), {}
    policy = resolve(record.policy)
    lifetime = lifetime_of_opening(draft, record, policy)
    after, verdict, extra = open_dataset(record, policy, lifetime, draft.decided_at)
    owners = extra.get("owners", ())
    for row in owner_rows(record.dataset, after.sequence, owners):  # type: ignore[arg-type]
        draft.members.put(row)
    return after, verdict, extra


def _administer(draft: Draft, ledger: DatasetLedger, record: DatasetRecord) -> AdminVerdict:
    after, verdict, extra = administer(ledger, record, draft.decided_at)
    if _breaks_shares(draft, ledger, after):
        refused = advance(ledger, draft.decided_at)
        return refused, Verdict(Outcome.REFUSED, Reason.OVER_RESERVED), {}
    alert_at = ledger.plan.policy.alert_at
    if verdict.outcome is Outcome.AMENDED and after.plan.policy.alert_at != alert_at:
        extra |= _reached(draft, after, draft.levels.of_dataset(after.dataset))
    return after, verdict, extra


def _breaks_shares(draft: Draft, before: DatasetLedger, after: DatasetLedger) -> bool:
    """Tell whether a smaller budget in force would not hold what is reserved for shares."""
    if not any(map(gt, before.plan.limits, after.plan.limits)):
        return False
    withheld = draft.levels.reserved(after.dataset)
    return any_reserved(withheld) and any(map(gt, plus(after.spent, withheld), after.plan.limits))


def _reached(draft: Draft, after: DatasetLedger, states: Iterable[LimitState]) -> dict[str, object]:
    """Return a decision's fields about thresholds that it is the first to reach at limits."""
    lookup = partial(draft.members.get, after.dataset)
    found = reached_limits(
        states, draft.levels, lookup, after.plan, draft.decided_at, after.sequence
    )
    for state in found.states:
        draft.levels.put(state)
    return {"reached": found.named, "more_reached": found.more}


def _member(draft: Draft, ledger: DatasetLedger, record: SetMember) -> AdminVerdict:
    name, before = record.dataset, draft.members.get(record.dataset, record.member)
    lead = _team_of_lead(draft, ledger, record)
    beyond_team = bool(lead) and _is_beyond_team(draft, ledger, before, record, lead)
    after, verdict, member = apply_member(
        ledger, before, record, draft.decided_at, beyond_team=beyond_team
    )
    if member is None:
        return after, verdict, {}
    if member.roles:
        draft.members.put(member_row(name, after.sequence, member))
    else:
        draft.members.remove(name, member.member)
    return after, verdict, {"member": member, "administrator": record.as_ is not None}


def _is_beyond_team(
    draft: Draft, ledger: DatasetLedger, before: MemberRow | None, record: SetMember, lead: str
) -> bool:
    """Tell whether a lead would take up what began outside the team, or lift the team's pause.

    A share of elsewhere would be spent. What waits or is open would show the lead what somebody
    asked in another team. And a removal lets the lead of another team add who is paused.
    """
    if before is not None:
        return not record.roles and pause_of(ledger.facts.person_pauses, None, lead) is not None
    name, who, at = ledger.dataset, record.member, clock_of(ledger, draft.decided_at)
    rows = [row for row in draft.pending.of(name).values() if row.analyst == who]
    waits = any(row.waits(at, draft.resets.number) for row in rows)
    own = draft.levels.get((name, "analyst", "", who))
    return waits or draft.reservations.open_of_holder(name, who) > 0 or is_outside(own, lead)


def _limit(draft: Draft, ledger: DatasetLedger, record: SetLimit) -> AdminVerdict:
    at, team = draft.decided_at, ""
    if record.scope == "analyst":
        team = team_of(draft.members.get(record.dataset, record.name or ""), at)
    lead = _team_of_lead(draft, ledger, record)
    after, verdict, level = apply_limit(ledger, draft.levels, record, team, at, lead)
    if level is None or level.rule is None:
        return after, verdict, {}
    draft.levels.put(level)
    states = [level]
    if record.scope == "each":
        uses = draft.levels.of_dataset(record.dataset)
        states = [each for each in uses if each.team == record.name]
    return after, verdict, {"limit": level.rule.record, **_reached(draft, after, states)}


def _team_of_lead(draft: Draft, ledger: DatasetLedger, record: SetMember | SetLimit) -> str:
    """Return the team whose lead sends a record, "" where the sender decides about the dataset."""
    lookup = partial(draft.members.get, record.dataset)
    decides = may_decide(ledger.plan.policy, lookup, record, draft.decided_at)
    return "" if decides else team_led(lookup(record.by))


def _resolve(draft: Draft, ledger: DatasetLedger, record: Resolve) -> AdminVerdict:
    after, verdict, extra, _ = decide_resolve(draft, ledger, record)
    return after, verdict, extra


def _ask(draft: Draft, ledger: DatasetLedger, record: AskMore) -> AdminVerdict:
    after, refused = advance(ledger, draft.decided_at), refused_ask(draft, ledger, record)
    if refused is not None:
        return after, refused, {}
    take_ask(draft.asks, record, after.sequence, draft.decided_at)
    return after, Verdict(Outcome.MORE_ASKED), {}


def _decline(draft: Draft, ledger: DatasetLedger, record: DeclineAsk) -> AdminVerdict:
    """Decline an open ask, which `why_no_answer` has found."""
    after, verdict = advance(ledger, draft.decided_at), Verdict(Outcome.MORE_DECLINED)
    if ledger.has_changed_since(record.follows):
        verdict = Verdict(Outcome.REFUSED, Reason.OUT_OF_DATE)
    return after, verdict, {}


RULES: Final[dict[type[AdminRecord], Callable[[Draft, DatasetLedger, Any], AdminVerdict]]] = {
    SetMember: _member,
    SetLimit: _limit,
    RecordRelease: decide_record,
    AskMore: _ask,
    DeclineAsk: _decline,
    Resolve: _resolve,
}
"""The rules of records that change more than a dataset itself; of those, `administer` has them."""
RULES_OF_SEVERAL: Final[
    dict[type[AdminRecord], Callable[[Draft, DatasetLedger, Any], tuple[PartResult, ...]]]
] = {Renew: decide_renewal}
"""The rules of records that change a second dataset."""


def apply_member(
    ledger: DatasetLedger,
    before: MemberRow | None,
    record: SetMember,
    at: int,
    *,
    beyond_team: bool,
) -> tuple[DatasetLedger, Verdict, Member | None]:
    """Return the ledger after a record, the verdict, and the membership from then on.

    Args:
        before: the member's row.
        at: the decision's time, milliseconds since 1970.
        beyond_team: a lead sends it, and reaches beyond the team.
    Returns: None for the membership where the record is refused; without roles, a removal.
    """
    reason = _member_refusal(ledger, before, record, at)
    if reason is None and beyond_team:
        reason = Reason.BEYOND_TEAM
    if reason is not None:
        return advance(ledger, at), Verdict(Outcome.REFUSED, reason), None
    owned = before is not None and "owner" in before.roles
    after = msgspec.structs.replace(
        advance(ledger, at),
        owners=ledger.owners + ("owner" in record.roles) - owned,
        members=ledger.members + bool(record.roles) - (before is not None),
    )
    outcome = Outcome.MEMBER_SET if record.roles else Outcome.MEMBER_REMOVED
    member = Member(record.member, sort_roles(record.roles), record.team, record.until)
    return after, Verdict(outcome), member


def _member_refusal(
    ledger: DatasetLedger, before: MemberRow | None, record: SetMember, at: int
) -> Reason | None:
    if ledger.has_changed_since(record.follows):
        return Reason.OUT_OF_DATE
    if before is None and not record.roles:
        return Reason.UNKNOWN_MEMBER
    owned = before is not None and "owner" in before.roles
    if owned and ledger.owners == 1 and "owner" not in record.roles:
        return Reason.LAST_OWNER
    if before is None and ledger.members >= MAX_MEMBERS:
        return Reason.TOO_MANY_MEMBERS
    return Reason.END_IN_PAST if _ends_before(record.until, at) else None


def _ends_before(until: str | None, at: int) -> bool:
    return until is not None and from_iso(until) <= at


def apply_limit(
    ledger: DatasetLedger, store: LimitStore, record: SetLimit, team: str, at: int, lead: str
) -> tuple[DatasetLedger, Verdict, LimitState | None]:
    """Return the ledger after a record, the verdict, and the limit's new state.

    Args:
        team: of an analyst, in force at this time; "" for none.
        at: the decision's time, milliseconds since 1970.
        lead: the team whose lead sends the record, "" for nobody's.
    Returns: None for the state if the record is refused.
    """
    before = store.get((ledger.dataset, record.scope, "", record.name or ""))
    was_in_force = before is not None and before.is_in_force
    was_set = before is not None and before.is_set
    reason = _limit_refusal(ledger, record, was_set, at)
    if reason is not None:
        return advance(ledger, at), Verdict(Outcome.REFUSED, reason), None
    rule = None if before is None else before.rule
    version = 1 if rule is None else rule.record.version + 1
    stored = limit_record_of(record, ledger.plan, version, team or None)
    sequence = ledger.sequence + 1
    level = apply_record(before, ledger.dataset, stored, ledger.plan, at, sequence)
    if lead and goes_beyond(store, before, level, lead):
        return advance(ledger, at), Verdict(Outcome.REFUSED, Reason.BEYOND_TEAM), None
    if level.share and _is_over_reserved(ledger, store, before, level):
        return advance(ledger, at), Verdict(Outcome.REFUSED, Reason.OVER_RESERVED), None
    is_new = level.is_in_force and not was_in_force
    if is_new and ledger.limits >= MAX_LIMITS and _is_full(store, ledger.dataset):
        return advance(ledger, at), Verdict(Outcome.REFUSED, Reason.TOO_MANY_LIMITS), None
    after = msgspec.structs.replace(
        advance(ledger, at),
        levels=ledger.levels + (before is None),
        limits=ledger.limits + level.is_set - was_set,
    )
    outcome = Outcome.LIMIT_SET if level.is_in_force else Outcome.LIMIT_REMOVED
    return after, Verdict(outcome), level


def _is_full(store: LimitStore, dataset: str) -> bool:
    """Tell whether a dataset has as many limits in force as it may: those that ended are none."""
    return sum(each.is_in_force for each in store.limits_of(dataset)) >= MAX_LIMITS


def _limit_refusal(ledger: DatasetLedger, record: SetLimit, is_set: bool, at: int) -> Reason | None:
    if ledger.closed:
        return Reason.CLOSED
    if ledger.has_changed_since(record.follows):
        return Reason.OUT_OF_DATE
    if record.removes and not is_set:
        return Reason.UNKNOWN_LIMIT
    if _ends_before(record.until, at):
        return Reason.END_IN_PAST
    return None if is_possible(record, ledger.plan) else Reason.LIMIT_NOT_POSSIBLE


def _is_over_reserved(
    ledger: DatasetLedger, store: LimitStore, before: LimitState | None, level: LimitState
) -> bool:
    """Tell whether the dataset would promise more than it has, or a team more than its share."""
    after = reserved_after(store, before, level)
    if any(map(gt, plus(ledger.spent, after.total), ledger.plan.limits)):
        return True
    team = level.name if level.scope == "team" else level.within
    key = ledger.dataset, team
    team_limit = level if level.scope == "team" else store.get((ledger.dataset, "team", "", team))
    if not team or team_limit is None or not team_limit.share:
        return False
    inside = after.teams.get(key) or store.reserved_in(*key)
    return any(map(gt, inside.total, team_limit.share))
