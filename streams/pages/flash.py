"""What a form has come to: the decision on its record, in a message."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from accountant.display.limits import limit_sentence
from accountant.display.members import member_sentence
from accountant.display.reasons import REASONS
from accountant.display.texts import capital
from accountant.records import Decision
from accountant.records.outcomes import Outcome

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
    words = REASONS[reason]
    return Message("refused", f"Refused: {words.title}", f"{words} Nothing was changed.")


def _done(decision: Decision) -> str:
    if decision.member is not None:
        return member_sentence(decision.member)
    return "" if decision.limit is None else capital(limit_sentence(decision.limit))
