"""Decide an ask for more, and whether an owner's record answers one."""

from __future__ import annotations

from functools import partial

from accountant.asks.answers import (
    ANSWERS,
    answered_by,
    has_room,
    refusal_of_answer,
    take_answer,
)
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.ledger.adjudicate import Verdict, refusal_of_all, refused_for
from accountant.members.pauses import pause_of_person
from accountant.members.permits import has_role
from accountant.partition.draft import Draft
from accountant.policy.compiled_policy import budget_below
from accountant.records import AdminRecord
from accountant.records.outcomes import Reason
from accountant.records.requests import AskMore


def refused_ask(draft: Draft, ledger: DatasetLedger, record: AskMore) -> Verdict | None:
    """Return the refusal of an ask of somebody who may ask; None where it is taken.

    A paused person asks for nothing. The reason is `paused` if the dataset is, too: `person_paused`
    says that it is not.

    Precedence: closed, out_of_date, paused, person_paused, has_role, above_ceiling, too_many_asks.
    """
    if ledger.closed:
        return refused_for(Reason.CLOSED)
    if ledger.has_changed_since(record.follows):
        return refused_for(Reason.OUT_OF_DATE)
    row = draft.members.get(record.dataset, record.by)
    pause = pause_of_person(ledger.facts.person_pauses, record.by, row)
    if pause is not None and ledger.facts.paused:
        return refused_for(Reason.PAUSED)
    if pause is not None:
        return refusal_of_all(Reason.PERSON_PAUSED, None, pause)
    reason = _why_not(draft, ledger, record)
    return None if reason is None else refused_for(reason)


def _why_not(draft: Draft, ledger: DatasetLedger, record: AskMore) -> Reason | None:
    if record.role is not None and _has_role(draft, ledger, record):
        return Reason.HAS_ROLE
    if record.wants == "budget" and record.budget and _is_above_ceiling(ledger, record):
        return Reason.ABOVE_CEILING
    room = has_room(draft.asks.of(record.dataset), record.by)
    return None if room else Reason.TOO_MANY_ASKS


def _has_role(draft: Draft, ledger: DatasetLedger, record: AskMore) -> bool:
    if record.role == "analyst" and ledger.plan.policy.access != "members":
        return True
    lookup = partial(draft.members.get, record.dataset)
    return record.role is not None and has_role(lookup, record.by, record.role, draft.decided_at)


def _is_above_ceiling(ledger: DatasetLedger, record: AskMore) -> bool:
    assert record.budget
    try:
        return budget_below(ledger.plan, record.budget) is None
    except RequestInvalid:  # so small that the filter has no budget from it
        return True


def why_no_answer(draft: Draft, ledger: DatasetLedger, record: AdminRecord) -> Reason | None:
    """Return why a record answers not the ask that it names; None where it does, or names none.

    One that is out of date is refused as that.
    """
    number = answered_by(record)
    if number is None or not isinstance(record, ANSWERS):
        return None
    if ledger.has_changed_since(record.follows):
        return None
    return refusal_of_answer(draft.asks.get(record.dataset, str(number)), record)


def answer(draft: Draft, record: AdminRecord, sequence: int) -> dict[str, object]:
    """Answer the ask that an applied record names, and return the decision's fields about it.

    Args:
        sequence: number of the decision in the dataset.
    """
    number = answered_by(record)
    if number is None or not isinstance(record, ANSWERS):
        return {}
    row = draft.asks.get(record.dataset, str(number))
    assert row is not None, "`why_no_answer` has found it"
    take_answer(draft.asks, row, record, sequence, draft.decided_at)
    return {"answers": number}
