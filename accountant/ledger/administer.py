"""Decide one owner's record that is about a dataset itself, not its members or limits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import gt
from typing import Any, Final

import msgspec
from msgspec import UNSET

from accountant.claims import check_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.ledger.adjudicate import Verdict, charge_outside
from accountant.policy import PARAMETERS, Policy, guarantee_of, resolve
from accountant.policy.compiled_policy import CompiledPolicy, below, budget_below, open_plan
from accountant.policy.in_force import StoredBudgetInForce, policy_under
from accountant.policy.lifetime import StoredLifetime
from accountant.records.dataset_facts import schema_fact, with_facts
from accountant.records.outcomes import Outcome, Reason
from accountant.records.person_pauses import MAX_PAUSES, PersonPause, pause_of, without_pause
from accountant.records.requests import (
    Amend,
    Close,
    Label,
    Open,
    Pause,
    PauseMember,
    Remark,
    Renew,
    Resume,
    ResumeMember,
    SetBudget,
)
from accountant.times import iso

DatasetRecord = (
    Amend | Close | Pause | Resume | PauseMember | ResumeMember | Label | Remark | SetBudget
)
"""A record that changes an open dataset itself, not its members or limits."""
_Change = tuple[DatasetLedger, Verdict, dict[str, object]]


def administer(ledger: DatasetLedger, record: DatasetRecord, at: int) -> _Change:
    """Return the ledger after an owner's record, the verdict, and the decision's extra fields.

    Args:
        ledger: the ledger before the record.
        record: a record whose fields are checked.
        at: the decision's time, milliseconds since 1970.
    """
    if ledger.closed and not isinstance(record, Label | Remark):  # people still read it
        return _refuse(ledger, Reason.CLOSED, at)
    if ledger.has_changed_since(record.follows):
        return _refuse(ledger, Reason.OUT_OF_DATE, at)
    return CHANGES[type(record)](ledger, record, at)


def _close(ledger: DatasetLedger, _: Close, at: int) -> _Change:
    return close_ledger(ledger, at), Verdict(Outcome.CLOSED), {}


def close_ledger(ledger: DatasetLedger, at: int, **facts: object) -> DatasetLedger:
    """Return a ledger that is closed from a decision on, with what else that sets of its facts."""
    closed_at = at if ledger.plan.dates_grants else 0
    # A closed dataset is not paused as well: no resume could ever end that pause.
    closed = _after_decision(ledger, at, closed=True)
    return _with_facts(closed, closed_at=closed_at, paused=False, **facts)


def _pause_or_resume(ledger: DatasetLedger, record: Pause | Resume, at: int) -> _Change:
    """Stop a dataset's grants, or let them continue.

    A record that would change nothing is refused. Otherwise two people who pause would each
    believe that their own resume is the one that counts.
    """
    pauses = isinstance(record, Pause)
    if pauses == ledger.facts.paused:
        return _refuse(ledger, Reason.ALREADY_PAUSED if pauses else Reason.NOT_PAUSED, at)
    after = _with_facts(_after_decision(ledger, at), paused=pauses)
    verdict = Verdict(Outcome.PAUSED if pauses else Outcome.RESUMED)
    return after, verdict, {"administrator": record.as_ is not None}


def _pause_person(ledger: DatasetLedger, record: PauseMember, at: int) -> _Change:
    pauses = ledger.facts.person_pauses
    if pause_of(pauses, record.member, record.team) is not None:
        return _refuse(ledger, Reason.PERSON_ALREADY_PAUSED, at)
    if len(pauses) >= MAX_PAUSES:
        return _refuse(ledger, Reason.TOO_MANY_PAUSED, at)
    pause = PersonPause(
        member=record.member,
        team=record.team,
        by=record.by,
        reason=record.reason,
        since=iso(at),
        administrator=record.as_ is not None,
    )
    after = _with_facts(_after_decision(ledger, at), person_pauses=(*pauses, pause))
    return after, Verdict(Outcome.MEMBER_PAUSED), _said_of(pause, record)


def _resume_person(ledger: DatasetLedger, record: ResumeMember, at: int) -> _Change:
    pauses = ledger.facts.person_pauses
    ended = pause_of(pauses, record.member, record.team)
    if ended is None:
        return _refuse(ledger, Reason.PERSON_NOT_PAUSED, at)
    after = _with_facts(_after_decision(ledger, at), person_pauses=without_pause(pauses, ended))
    return after, Verdict(Outcome.MEMBER_RESUMED), _said_of(ended, record)


def _said_of(pause: PersonPause, record: PauseMember | ResumeMember) -> dict[str, object]:
    return {"pause": pause, "administrator": record.as_ is not None}


def _label(ledger: DatasetLedger, record: Label, at: int) -> _Change:
    after = _with_facts(_after_decision(ledger, at), label=record.label)
    verdict = Verdict(Outcome.LABEL_SET if record.label else Outcome.LABEL_REMOVED)
    return after, verdict, {}


def _remark(ledger: DatasetLedger, record: Remark, at: int) -> _Change:
    if not 1 <= record.decision <= ledger.sequence:
        return _refuse(ledger, Reason.UNKNOWN_DECISION, at)
    return _after_decision(ledger, at), Verdict(Outcome.REMARKED), {}


def _set_budget(ledger: DatasetLedger, record: SetBudget, at: int) -> _Change:
    try:
        in_force = budget_below(ledger.plan, record.budget)
    except RequestInvalid:  # so small that the filter has no budget from it
        in_force = None
    if in_force is None:
        return _refuse(ledger, Reason.ABOVE_CEILING, at)
    after = set_in_force(_after_decision(ledger, at), in_force)
    crossed = after.plan.policy.alert_at[ledger.crossed : after.crossed]
    return after, Verdict(Outcome.BUDGET_SET, crossed=crossed), {"in_force": in_force}


def set_in_force(ledger: DatasetLedger, in_force: StoredBudgetInForce) -> DatasetLedger:
    """Return a ledger under another budget in force. A live decision and a replay both call this.

    Thresholds are those of the new budget: what is not reached of it is reported when it is.
    """
    plan = below(ledger.plan, in_force)
    spent = plan.progress(ledger.totals)
    return msgspec.structs.replace(
        _with_facts(ledger, in_force=in_force),
        plan=plan,
        crossed=plan.count_crossed(spent, exhausted=False),
        exhausted=spent >= plan.most,
    )


def open_dataset(record: Open, policy: Policy, lifetime: StoredLifetime | None, at: int) -> _Change:
    """Return the ledger of a dataset, the verdict, and the decision's extra fields.

    Args:
        policy: of the record, resolved.
        lifetime, at: as of `open_ledger`.
    """
    owners = (record.by,) if record.owners is UNSET else record.owners
    opened, verdict, extra = open_ledger(record.dataset, policy, record, owners, lifetime, at)
    if record.spent is UNSET:
        return opened, verdict, extra
    charged = charge_outside(opened, check_claim(record.spent.claim), at, is_first=True)
    assert charged is not None, "an input whose claim does not fit is invalid"
    ledger, extra["cost"], crossed = charged
    ledger = _with_facts(msgspec.structs.replace(ledger, sequence=1), spent=record.spent)
    return ledger, Verdict(Outcome.OPENED, crossed=crossed), extra


def open_ledger(
    dataset: str,
    policy: Policy,
    record: Open | Renew,
    owners: tuple[str, ...],
    lifetime: StoredLifetime | None,
    at: int,
) -> _Change:
    """Return the ledger of a dataset that a record opens.

    Args:
        policy: resolved; of the record, its budget in force and its schema are read.
        lifetime: after it was charged this dataset.
    """
    plan = open_plan(policy)
    extra = _policy_fields(plan)
    if record.budget is not UNSET:
        in_force = budget_below(plan, record.budget)
        assert in_force is not None
        plan, extra["in_force"] = below(plan, in_force), in_force
    extra["owners"] = owners
    if lifetime is not None:
        extra["lifetime"] = lifetime
    ledger = DatasetLedger.new(dataset, plan, at)
    ledger = msgspec.structs.replace(ledger, owners=len(owners), members=len(owners))
    facts = {
        "schema": schema_fact(record.schema),
        "in_force": plan.in_force,
        "lifetime": UNSET if lifetime is None else lifetime,
    }
    return _with_facts(ledger, **facts), Verdict(Outcome.OPENED), extra


def _amend(ledger: DatasetLedger, record: Amend, at: int) -> _Change:
    if record.policy is not None:
        return _lower(ledger, record.policy, at)
    before = ledger.plan.policy
    policy = msgspec.structs.replace(
        before,
        alert_at=before.alert_at if record.alert_at is None else record.alert_at,
        horizon=before.horizon if record.horizon is None else record.horizon,
        most_per_request=(
            before.most_per_request if record.most_per_request is None else record.most_per_request
        ),
        access=before.access if record.access is None else record.access,
        visibility=before.visibility if record.visibility is None else record.visibility,
        open_per_holder=(
            before.open_per_holder
            if record.open_per_holder is None
            else record.open_per_holder or UNSET
        ),
        approve_above=record.approve_above or before.approve_above,
        approve_within=record.approve_within or before.approve_within,
    )
    plan = CompiledPolicy(policy, ledger.plan.capacity, ledger.plan.in_force)
    amended = _after_decision(ledger, at, plan=plan, crossed=crossed_under(plan, ledger))
    return amended, _amended(plan, ledger), _policy_fields(plan)


def _amended(plan: CompiledPolicy, before: DatasetLedger) -> Verdict:
    """Return the verdict on an amendment: it reports reached thresholds that no decision has."""
    reached = plan.count_crossed(plan.progress(before.totals), exhausted=before.exhausted)
    reported = _reported(before)
    crossed = [each for each in plan.policy.alert_at[:reached] if each not in reported]
    return Verdict(Outcome.AMENDED, crossed=tuple(crossed))


def _reported(ledger: DatasetLedger) -> tuple[str, ...]:
    return ledger.plan.policy.alert_at[: ledger.crossed]


def crossed_under(plan: CompiledPolicy, before: DatasetLedger) -> int:
    """Return how many thresholds a dataset has crossed once an amendment gives it `plan`."""
    crossed = plan.count_crossed(plan.progress(before.totals), exhausted=before.exhausted)
    return max(crossed, count_reported(plan.policy.alert_at, _reported(before)))


def count_reported(alert_at: tuple[str, ...], reported: tuple[str, ...]) -> int:
    """Return how many thresholds lie no higher than the last one reported.

    What a reservation gives back uncrosses nothing: a dataset has reached these before.
    """
    if not reported:
        return 0
    last = Fraction(reported[-1])
    return sum(Fraction(each) <= last for each in alert_at)


_KEPT: Final = (
    *("access", "visibility", "population", "open_per_holder", "approve_above", "approve_within"),
)
"""The fields of a policy that stay as they are where a lowered one leaves them out."""


def _lower(ledger: DatasetLedger, wanted: Policy, at: int) -> _Change:
    """Give a dataset of which nothing was granted a lower budget, and the whole policy with it.

    The guarantee, too, must be nowhere larger: its epsilon or rho, and its delta. Who may ask and
    see, the population, what one holder may have open, and what needs an approval, stay where the
    policy leaves them out:
    who lowers a budget must not open the dataset to anyone by a field that is not there. Of a
    dataset with a population or a lifetime nothing is lowered: its guarantee is added to those of
    others, and would then be chosen after a look at what these have answered.
    """
    if ledger.mechanisms or any(ledger.totals):
        return _refuse(ledger, Reason.ALREADY_GRANTED, at)
    if ledger.limits:
        # Parts and shares are stored as what they were of the budget as it is.
        return _refuse(ledger, Reason.HAS_LIMITS, at)
    before = ledger.plan
    unchanged = {
        field: getattr(before.policy, field) for field in _KEPT if getattr(wanted, field) is UNSET
    }
    plan = open_plan(resolve(msgspec.structs.replace(wanted, **unchanged)))
    was, now = guarantee_of(before.policy), guarantee_of(plan.policy)
    same = all(
        getattr(before.policy, field) == getattr(plan.policy, field)
        for field in ("filter", "beside", "unit", "neighbours", "population", *PARAMETERS)
    )
    larger = now.name != was.name or now.amount > was.amount or now.delta > was.delta
    shared = before.policy.population is not UNSET or ledger.facts.lifetime is not UNSET
    in_force = before.in_force
    over = in_force is not UNSET and policy_under(plan.policy, in_force) is None
    if not same or shared or larger or over or any(map(gt, plan.capacity, before.capacity)):
        return _refuse(ledger, Reason.NOT_LOWER, at)
    plan, zero = below(plan, in_force), (0,) * len(plan.sums)
    crossed = crossed_under(plan, ledger)
    lowered = _after_decision(ledger, at, plan=plan, crossed=crossed, totals=zero)
    return lowered, _amended(plan, ledger), _policy_fields(plan)


def _policy_fields(plan: CompiledPolicy) -> dict[str, object]:
    return {"policy": plan.policy, "budget": plan.budget_wire}


def _refuse(ledger: DatasetLedger, reason: Reason, at: int) -> _Change:
    return _after_decision(ledger, at), Verdict(Outcome.REFUSED, reason), {}


def _after_decision(ledger: DatasetLedger, at: int, **changes: object) -> DatasetLedger:
    sequence = ledger.sequence + 1
    return msgspec.structs.replace(ledger, sequence=sequence, changed_at=at, **changes)


def _with_facts(ledger: DatasetLedger, **facts: object) -> DatasetLedger:
    return msgspec.structs.replace(ledger, facts=with_facts(ledger.facts, facts))


CHANGES: Final[dict[type[DatasetRecord], Callable[[DatasetLedger, Any, int], _Change]]] = {
    Amend: _amend,
    Close: _close,
    Pause: _pause_or_resume,
    Resume: _pause_or_resume,
    PauseMember: _pause_person,
    ResumeMember: _resume_person,
    Label: _label,
    Remark: _remark,
    SetBudget: _set_budget,
}
"""How a record changes a dataset that takes it, and is as the record's `follows` says."""
