"""Decide an owner's record about a member, once the owner may make it."""

from __future__ import annotations

import msgspec

from accountant.ledger import Ledger
from accountant.ledger.adjudicate import Verdict, moved
from accountant.records import SetMember
from accountant.records.members import MOST_MEMBERS, Member, MemberRow, in_order
from accountant.records.outcomes import Outcome, Reason


def enrol(
    ledger: Ledger, before: MemberRow | None, record: SetMember, at: int
) -> tuple[Ledger, Verdict, Member | None]:
    """Return the ledger after a record, the verdict, and the membership from then on.

    Args:
        before: the member's row.
        at: the decision's time, milliseconds since 1970.
    Returns: None for the membership where the record is refused; without roles, a removal.
    """
    reason = _refusal(ledger, before, record)
    if reason is not None:
        return moved(ledger, at), Verdict(Outcome.REFUSED, reason), None
    owned = before is not None and "owner" in before.roles
    after = msgspec.structs.replace(
        moved(ledger, at),
        owners=ledger.owners + ("owner" in record.roles) - owned,
        members=ledger.members + bool(record.roles) - (before is not None),
    )
    outcome = Outcome.MEMBER_SET if record.roles else Outcome.MEMBER_REMOVED
    member = Member(record.member, in_order(record.roles), record.team, record.until)
    return after, Verdict(outcome), member


def _refusal(ledger: Ledger, before: MemberRow | None, record: SetMember) -> Reason | None:
    if record.follows is not None and record.follows != ledger.sequence:
        return Reason.OUT_OF_DATE
    if before is None and not record.roles:
        return Reason.UNKNOWN_MEMBER
    owned = before is not None and "owner" in before.roles
    if owned and ledger.owners == 1 and "owner" not in record.roles:
        return Reason.LAST_OWNER
    if before is None and ledger.members >= MOST_MEMBERS:
        return Reason.TOO_MANY_MEMBERS
    return None
