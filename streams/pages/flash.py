"""The message on top of a page after a form: the decision on its record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from accountant.display.approvals import answer_words
from accountant.display.current_dataset import CurrentDataset
from accountant.display.limits import limit_sentence, whole_of_limits
from accountant.display.members import member_sentence
from accountant.display.pauses import person_sentence
from accountant.display.reasons import REASONS
from accountant.display.refusals import refusal_words
from accountant.display.reservations import step_words
from accountant.display.texts import capital
from accountant.records import Decision
from accountant.records.outcomes import Outcome


class Message(NamedTuple):
    """A message on top of a page.

    Attributes:
        tone: `done`, `refused`, or `waits` for a record that is not decided yet.
    """

    tone: Literal["done", "refused", "waits"]
    title: str
    text: str


def message(
    decision: Decision | None,
    notes: Iterable[str] = (),
    current: CurrentDataset | None = None,
) -> Message:
    """Return the message for the decision on a form's record; None is an undecided record.

    Args:
        notes: warnings about a record that was made, without a full stop.
        current: the dataset, for a refusal that compares the record with it, and for what its
            limits are parts of.
    """
    if decision is None:
        return Message(
            "waits",
            "Not decided yet",
            "The record is not decided yet, or too old to look up. Reload this page in a moment. "
            "The current values are below.",
        )
    if answered := answer_words(decision):
        return Message("done", "Done", f"{capital(answered)}{_number(decision)}.")
    if decision.outcome.is_applied:
        noted = "".join(f" Note: {note}{'' if note.endswith('?') else '.'}" for note in notes)
        closes = decision.answers is not None and decision.outcome is not Outcome.MORE_DECLINED
        accepted = f" It accepts ask {decision.answers}." if closes else ""
        return Message(
            "done", "Done", f"{_done(decision, current)}{_number(decision)}.{accepted}{noted}"
        )
    reason = decision.reason
    if reason is None:
        return Message("refused", str(decision.outcome).capitalize(), "Nothing was changed.")
    words = refusal_words(decision, current=current)
    nothing = "" if "Nothing was " in words else " Nothing was changed."
    return Message("refused", f"Refused: {REASONS[reason].title}", f"{words}{nothing}")


def _number(decision: Decision) -> str:
    return f" (decision {decision.sequence:,} of this dataset)" if decision.sequence else ""


_SENTENCES: Final = {
    Outcome.PAUSED: "The dataset is paused",
    Outcome.RESUMED: "The dataset is resumed",
    Outcome.OPENED: "The dataset is open. Add analysts under Members",
    Outcome.CLOSED: "The dataset is closed",
    Outcome.RENEWED: "The dataset is renewed: the next generation is open in its place",
    Outcome.BUDGET_SET: "The budget in force is set",
    Outcome.RECORDED: "The release is charged",
    Outcome.REMARKED: "The remark stands beside its decision",
    Outcome.AMENDED: "The dataset is amended",
}


def _done(decision: Decision, current: CurrentDataset | None) -> str:
    if decision.outcome in _SENTENCES:
        return _SENTENCES[decision.outcome]
    if decision.outcome.is_step:
        return capital(step_words(decision))
    if decision.outcome.asks_owners:
        return "The owners can read your ask. Their answer will stand on this page"
    if decision.outcome is Outcome.MORE_DECLINED:
        return f"Ask {decision.answers} is declined"
    if decision.outcome is Outcome.BUDGET_SET:
        return "The budget in force is set"
    if decision.member is not None:
        return member_sentence(decision.member)
    if decision.pause is not None:
        ended = not decision.outcome.pauses
        return capital(person_sentence(decision.pause, ended=ended))
    if decision.limit is not None:
        view = None if current is None else current.view
        whole = whole_of_limits(view)
        return capital(limit_sentence(decision.limit, whole))
    return capital(str(decision.outcome))
