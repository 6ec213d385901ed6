"""Refuses questions by what the process that reads data has published: for servers without data."""

from __future__ import annotations

from collections.abc import Mapping

from accountant.errors import RequestInvalid
from accountant.questions import Question, Schema, check_question
from streams.answers.published_states import PublishedState
from streams.sources.source_states import QuestionRefusal, closed_words, lacks, note_of


class PublishedStates:
    """Says what `SourceStates` says elsewhere. Without a published state it refuses nothing.

    Args:
        states: by dataset, as they are published.
    """

    def __init__(self, states: Mapping[str, PublishedState]) -> None:
        self._states = states

    def refusal(self, dataset: str, question: Question, schema: Schema) -> QuestionRefusal | None:
        """Return why a question on a dataset is not run, None if it may."""
        state = self._states.get(dataset)
        if state is None:
            return None
        try:
            names = check_question(question, schema).column_names
        except RequestInvalid:
            return None  # the ledger refuses it
        for each in state.lacks:
            if each.is_unit or each.column in names:
                return lacks(state.source, each)
        if not state.is_closed:
            return None
        cause = "the process that reads data has published it"
        what = closed_words(state.source)
        return QuestionRefusal(kind="closed", value=state.source, what=what, cause=cause)

    def note(self) -> str | None:
        """Return which sources answer nobody."""
        return note_of({each.source for each in self._states.values() if each.is_closed})
