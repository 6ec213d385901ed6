"""What a form has come to: the decision on its record, in a message."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from accountant.limits.wire import LimitRecord
from accountant.records import Decision
from accountant.records.members import Member
from accountant.records.outcomes import Outcome
from streams.pages.reasons import meaning, title
from streams.pages.words import joined, moment, period, ratio_text, whose

_DONE: Final = frozenset(
    {Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED, Outcome.LIMIT_SET, Outcome.LIMIT_REMOVED}
)


class Message(NamedTuple):
    """What is told on top of the page.

    Attributes:
        tone: `done`, `refused`, or `waits` for what is not decided yet.
    """

    tone: Literal["done", "refused", "waits"]
    title: str
    text: str


def message(decision: Decision | None) -> Message:
    """Return what a decision on a form's record says; of none, that it is still to be made."""
    if decision is None:
        return Message(
            "waits",
            "Not decided yet",
            "The record is sent, or too old to be looked up here. Load this page again in a "
            "moment: what holds is shown below.",
        )
    if decision.outcome in _DONE:
        number = f" (decision {decision.sequence:,} of this dataset)" if decision.sequence else ""
        return Message("done", "Done", f"{_done(decision)}{number}.")
    reason = decision.reason
    if reason is None:
        return Message("refused", str(decision.outcome).capitalize(), "Nothing was changed.")
    return Message(
        "refused", f"Refused: {title(reason)}", f"{meaning(reason)} Nothing was changed."
    )


def _done(decision: Decision) -> str:
    if decision.member is not None:
        return _member(decision.member)
    return "" if decision.limit is None else _limit(decision.limit)


def _member(member: Member) -> str:
    if not member.roles:
        return f"{member.member} is no member any more"
    team = f" in team {member.team}" if member.team else ""
    until = f" until {moment(member.until).text}" if member.until else ""
    return f"{member.member} is {' and '.join(member.roles)}{team}{until}"


def _limit(limit: LimitRecord) -> str:
    who = whose(limit.scope, limit.name)
    said = []
    if limit.part is not None:
        said.append(f"may use {ratio_text(limit.part)} of the budget")
    if limit.policy is not None:
        said.append(f"has a budget of its own, {joined(limit.budget, up=False)}")
    if limit.pace is not None:
        part, each = ratio_text(limit.pace.part), period(limit.pace.period)
        said.append(f"may use {part} of the budget in each {each}")
    if limit.reserved is not None:
        said.append(f"has {ratio_text(limit.reserved.part)} of the budget reserved")
    return f"{who} {', '.join(said)}" if said else f"{who} is not limited any more"
