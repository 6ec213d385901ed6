"""Answers on a page: those to the latest requests, with intervals and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from accountant.answers import decode_answer
from accountant.display.answers import answer_html
from accountant.records import Decision
from accountant.records.request_names import names_in_request
from accountant.views.visibility import DatasetAccess, sees_answer
from streams.answers.store import AnswerReader
from streams.errors import Refused, Unavailable
from streams.pages.dataset.request_rows import request_id_of


class ShownAnswer(NamedTuple):
    """The answer to a granted question; without HTML, it is not there yet."""

    html: Markup | None = None


async def recent_answers(
    reader: AnswerReader | None,
    dataset: str,
    decisions: Sequence[Decision],
    access: DatasetAccess,
) -> Mapping[int, ShownAnswer]:
    """Return the answers to granted questions, by the decision's number in its dataset.

    Args:
        reader: None on a server without answers.
        decisions: which the viewer may see; a lead sees some of which no answer is shown.
        access: the viewer's.
    """
    found = dict[int, ShownAnswer]()
    for decision in decisions:
        if reader is None or decision.derived is None or not decision.outcome.charges:
            continue
        names, request_id = names_in_request(decision.request), request_id_of(decision)
        if names.via != access.name and not sees_answer(access, names.analyst):
            continue
        try:
            stored = await reader.find(dataset, names.analyst, request_id)
        except Refused as error:
            found[decision.sequence or 0] = ShownAnswer(escape(str(error)))
            continue
        except Unavailable:  # the page shows more than answers
            stored = None
        # Its texts are escaped where it is made: it holds no script, style or address.
        html = None if stored is None else Markup(answer_html(decode_answer(stored.value)))  # noqa: S704
        found[decision.sequence or 0] = ShownAnswer(html)
    return found
