"""Compare a stored answer with its grant, and with the settlement of its session.

Source: a claim is charged for one question, and a session at the last level that it showed. So the
answer that was shown must be of that question, and end at that level.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.answers.answer import NoisyAnswer
from accountant.answers.build import Granted, failed_answer
from accountant.replay.plain_text import plain

_OF_THE_GRANT: Final = (
    *("dataset", "request_id", "analyst", "grant", "question", "noise", "stop", "claim"),
)


class AnswerDifference(NamedTuple):
    """What an answer must have by the log, and what it has.

    Attributes:
        what: the field.
        expected: by the log.
        found: in the answer.
    """

    what: str
    expected: str
    found: str


def difference_from_grant(granted: Granted, answer: NoisyAnswer) -> AnswerDifference | None:
    """Return the first field that is not of the grant, None if the answer is one to it.

    A failed answer has no other content than its grant, so all of it is compared.
    """
    due = failed_answer(granted)
    fields = due.__struct_fields__ if answer.outcome == "failed" else _OF_THE_GRANT
    for field in fields:
        expected, found = getattr(due, field), getattr(answer, field)
        if expected != found:
            return AnswerDifference(field, plain(expected), plain(found))
    return None


def difference_from_settlement(
    answer: NoisyAnswer | None, shown: str | None
) -> AnswerDifference | None:
    """Return how a session's answer ends at another level than its settlement names, or None.

    Args:
        answer: None if none is stored, which must be settled in full as a failed one.
        shown: the level in the settlement, None of one in full.
    """
    last = None if answer is None else answer.shown
    if last == shown:
        return None
    if answer is None or answer.outcome == "failed":
        found = "no answer" if answer is None else "an answer that failed"
    else:
        found = last or "no level"
    return AnswerDifference("shown", shown or "settled in full", found)
