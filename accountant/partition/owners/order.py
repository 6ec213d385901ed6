"""Decide an owner's record, and take what it changes beside its dataset into the draft."""

from __future__ import annotations

from functools import partial

from accountant.ledger import Ledger
from accountant.ledger.adjudicate import Verdict, moved
from accountant.ledger.administer import administer
from accountant.partition.draft import Draft
from accountant.partition.levels import team_of
from accountant.partition.owners.divide import divide
from accountant.partition.owners.enrol import enrol
from accountant.partition.permits import may_decide
from accountant.records import AdminRecord, Amend, Close, Open, SetLimit, SetMember
from accountant.records.members import member_row, owner_rows
from accountant.records.outcomes import Outcome, Reason

Order = tuple[Ledger, Verdict, dict[str, object]]
"""The ledger after a record, the verdict, and the decision's extra fields."""


def order(draft: Draft, ledger: Ledger | None, record: AdminRecord) -> Order:
    """Decide an owner's record, whose dataset is opened or is to be.

    Precedence: already_opened, not_permitted, then that of each kind of record.
    """
    if isinstance(record, Open):
        return _administer(draft, ledger, record)
    assert ledger is not None
    at, lookup = draft.decided_at, partial(draft.members.get, record.dataset)
    if not may_decide(lookup, record, at):
        return moved(ledger, at), Verdict(Outcome.REFUSED, Reason.NOT_PERMITTED), {}
    if isinstance(record, SetMember):
        return _enrol(draft, ledger, record)
    if isinstance(record, SetLimit):
        return _divide(draft, ledger, record)
    return _administer(draft, ledger, record)


def _administer(draft: Draft, ledger: Ledger | None, record: Open | Amend | Close) -> Order:
    after, verdict, extra = administer(ledger, record, draft.decided_at)
    if verdict.outcome is Outcome.OPENED:
        owners = extra.get("owners", ())
        for row in owner_rows(record.dataset, after.sequence, owners):  # type: ignore[arg-type]
            draft.members.put(row)
    return after, verdict, extra


def _enrol(draft: Draft, ledger: Ledger, record: SetMember) -> Order:
    name, before = record.dataset, draft.members.get(record.dataset, record.member)
    after, verdict, member = enrol(ledger, before, record, draft.decided_at)
    if member is None:
        return after, verdict, {}
    if member.roles:
        draft.members.put(member_row(name, after.sequence, member))
    else:
        draft.members.remove(name, member.member)
    return after, verdict, {"member": member, "administrator": record.as_ is not None}


def _divide(draft: Draft, ledger: Ledger, record: SetLimit) -> Order:
    at, team = draft.decided_at, ""
    if record.scope == "analyst":
        team = team_of(draft.members.get(record.dataset, record.name or ""), at)
    after, verdict, level = divide(ledger, draft.levels, record, team, at)
    if level is None or level.rule is None:
        return after, verdict, {}
    draft.levels.put(level)
    return after, verdict, {"limit": level.rule.told}
