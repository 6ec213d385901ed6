# Generated from _async/questions.py by `make client`: change that file instead.
"""`Questions`: questions on the data and their answers, for notebooks and scripts."""

from __future__ import annotations

import os
import warnings
from typing import Any, Final, Unpack, cast
from uuid import UUID

from accountant.answers import NoisyAnswer
from accountant.questions import Question, Schema
from accountant.records.coerce import coerce_id, coerce_seconds, coerce_text, optional_text
from streams.client._sync.ledger_reader import LedgerReader
from streams.client.connection.lookups import (
    answer_page,
    get_ledger_id,
    look_for_answer,
    own_name,
    schema_of,
)
from streams.client.connection.retry import Deadline
from streams.client.questions.answers import (
    ANSWER_CODEC,
    NotYetAnswered,
    PrivateAnswer,
    answers_request,
    check_answer,
    private_answer,
)
from streams.client.questions.asked_question import (
    Amount,
    AnswerArguments,
    AskedQuestion,
    NoiseArguments,
    QuestionArguments,
    asked_question,
    noise_of,
    take_noise,
    take_question,
)
from streams.client.releases.grants import Release, parse_once
from streams.client.releases.store import ResultMissing, ResultStore
from streams.client.requests.requests import (
    PreparedRequest,
    RequestDraft,
    default_analyst,
    draft_request,
)
from streams.clock import Clock
from streams.errors import AccountantWarning
from streams.notebooks.columns import SchemaColumns

ANSWER_WAIT_S: Final = 60.0
"""Default wait for a decision and its answer, in seconds."""


class Questions(LedgerReader):
    """Asks questions on the data of a ledger, and reads their answers.

    Each method charges, and returns a `PrivateAnswer`, which is the same whenever the request is
    sent again. A wrong question raises `RequestInvalid`, before anything is sent. A refusal raises
    `NotGranted`, and costs nothing.
    """

    url: str
    via: str | None
    clock: Clock
    _ledger_id: str
    _schemas: dict[str, Schema]

    def answer(
        self, dataset: str, question: str | Question, **arguments: Unpack[AnswerArguments]
    ) -> PrivateAnswer:
        """Ask a question such as `count where age > 65`, and return its noisy answer.

        The ledger derives the claim from the question, the noise and the dataset's schema.

            ledger.answer("census", "mean(income) by region", epsilon="0.5")

        Args:
            question: its text, or a value of `accountant.questions`.
            epsilon, rho, sigma, error: how much noise: exactly one of them. With `error`, each
                number is within it with the probability `confidence`, by default 0.95.
            law: of the noise, if not the first of the reference.
            relative_error: stop as soon as each number is within this part of its value, with
                the probability `confidence`: accuracy first. What is given as noise is then the
                most that the answer may cost. `stop` gives another rule, as in `error: 50 at 0.9`,
                `first` the largest noise, and `until` the longest time, by default an hour.
            analyst, purpose, request_id, via, store, once, new: as of `release`.
            wait: seconds to wait for the decision and the answer, by default 60.
        Returns: the answer as it is stored.

        Raises:
            RequestInvalid: the schema does not allow it; nothing was sent.
            NoAnswers: nobody runs questions here; nothing was sent. NotGranted.
            AnswerFailed: the question could not be run; the message says what stays charged.
            NotYetAnswered, Unanswered: ask again with its `request_id`.
            NameTaken: `once` belongs to another question, or to another ledger.
            SimilarName: `once` is nearly another name; nothing was charged.
        """
        return self._answer_to(dataset, question, cast("QuestionArguments", {**arguments}))

    def count(self, dataset: str, **arguments: Unpack[QuestionArguments]) -> PrivateAnswer:
        """Count rows: `count("census", where="age > 65", epsilon="0.5")`.

        Args:
            where: a filter of rows. `by`: columns; each combination of their declared values has
                a count. `rows`: the most rows of a unit that enter.
            The others are those of `answer`, here and in the next methods.
        """
        return self._answer_to(dataset, take_question("count", arguments), arguments)

    def sum(
        self, dataset: str, column: str, **arguments: Unpack[QuestionArguments]
    ) -> PrivateAnswer:
        """Add up a number column; each value is clamped to the bounds of the schema."""
        return self._answer_to(dataset, take_question("sum", arguments, column=column), arguments)

    def mean(
        self, dataset: str, column: str, **arguments: Unpack[QuestionArguments]
    ) -> PrivateAnswer:
        """Return the mean of a number column: a noisy sum by a noisy count."""
        return self._answer_to(dataset, take_question("mean", arguments, column=column), arguments)

    def variance(
        self, dataset: str, column: str, **arguments: Unpack[QuestionArguments]
    ) -> PrivateAnswer:
        """Return the variance of a number column; it divides by the number of rows."""
        return self._answer_to(
            dataset, take_question("variance", arguments, column=column), arguments
        )

    def quantile(
        self, dataset: str, column: str, fraction: Amount, **arguments: Unpack[QuestionArguments]
    ) -> PrivateAnswer:
        """Choose a quantile of a number column: `quantile("census", "age", "0.9", epsilon="1")`."""
        question = take_question("quantile", arguments, column=column, fraction=fraction)
        return self._answer_to(dataset, question, arguments)

    def histogram(
        self, dataset: str, column: str, **arguments: Unpack[QuestionArguments]
    ) -> PrivateAnswer:
        """Count the rows of each declared category of a column."""
        return self._answer_to(
            dataset, take_question("histogram", arguments, column=column), arguments
        )

    def top(
        self, dataset: str, column: str, most: int, **arguments: Unpack[QuestionArguments]
    ) -> PrivateAnswer:
        """Choose the most frequent declared categories of a column, without their counts."""
        return self._answer_to(
            dataset, take_question("top", arguments, column=column, most=most), arguments
        )

    def question(
        self, dataset: str, question: str | Question, **noise: Unpack[NoiseArguments]
    ) -> AskedQuestion:
        """Return a question with its noise, checked against the schema; nothing is charged.

        `cost` says what it would cost, and `ask` asks it without waiting for the answer.

        Args:
            noise: the arguments of `answer` up to `until`.
        Raises: RequestInvalid. UnknownDataset.
        """
        schema = self._schema(coerce_text("dataset", dataset))
        return asked_question(question, schema, **noise)

    def columns(self, dataset: str) -> SchemaColumns:
        """Return each column of a dataset, and what can be asked of it, by its schema alone.

        Print it, or show it in a notebook.

        Raises: UnknownDataset. RequestInvalid: it has no schema, so nobody can ask a question.
        """
        return SchemaColumns(self._schema(coerce_text("dataset", dataset)))

    def find_answer(
        self,
        dataset: str,
        request_id: str | UUID,
        *,
        analyst: str | None = None,
        wait: float = 0.0,
    ) -> PrivateAnswer | None:
        """Return the answer to a request, None while it has none.

        Args:
            analyst: who asked; by default the client's own name.
            wait: seconds to wait for the answer to a granted question.
        Raises: AnswerFailed: the question could not be run. NoAnswers.
        """
        dataset, wait = coerce_text("dataset", dataset), coerce_seconds("wait", wait)
        sent_id = coerce_id(request_id)
        name = optional_text("analyst", analyst) or default_analyst(self.analyst)
        if name is None:
            name = self._connection.read(lambda service: own_name(service, "analyst"))
        found = self._find_record(dataset, name, sent_id, wait)
        return None if found is None else private_answer(found)

    def answers(self, dataset: str) -> list[NoisyAnswer]:
        """Return the answers to a dataset's questions that the caller may see, oldest first.

        They are records, as `PrivateAnswer` makes one readable: one with the outcome `failed`
        has no values.

        Raises: NoAnswers. UnknownDataset.
        """
        dataset = coerce_text("dataset", dataset)
        found, after = self._answer_page(dataset, 0)
        answers = list(found)
        while found:
            found, after = self._answer_page(dataset, after)
            answers += found
        return answers

    def _answer_page(self, dataset: str, after: int) -> tuple[list[NoisyAnswer], int]:
        return self._connection.read(lambda service: answer_page(service, dataset, after))

    def _answer_to(
        self, dataset: str, question: str | Question, arguments: QuestionArguments
    ) -> PrivateAnswer:
        noise = take_noise(arguments)
        noise_of(**noise)  # wrong arguments raise here
        rest = cast("dict[str, Any]", arguments)
        return self._answer(coerce_text("dataset", dataset), question, noise, **rest)

    def _answer(
        self,
        dataset: str,
        question: str | Question,
        noise: dict[str, Any],
        *,
        analyst: str | None = None,
        purpose: str = "",
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = ANSWER_WAIT_S,
        store: ResultStore | str | os.PathLike[str] | None = None,
        once: str | None = None,
        new: bool = False,
    ) -> PrivateAnswer:
        name, wait = parse_once(once, request_id, new=new), coerce_seconds("wait", wait)
        deadline = Deadline(wait)
        asked = asked_question(question, self._schema(dataset), **noise)
        draft = self._question_draft(dataset, asked, analyst, purpose, request_id, via)
        results = store if isinstance(store, ResultStore) else ResultStore(store)
        call = self._sender.prepare(draft, wait)
        release = Release(results, call, ANSWER_CODEC, self.url, wait, name)
        with release.noting_errors():
            # A server without answers is noticed before anything is charged.
            earlier = self._find_answer_to(call)
            if earlier is not None:
                return earlier
            if (repeated := self._connection.run(release.repeat_warning)) is not None:
                warnings.warn(repeated, AccountantWarning, stacklevel=4)
            ledger_id = "" if name is None else self._ledger()
            stored = self._connection.run(release.record_request, ledger_id)
            if stored is not None:
                return cast("PrivateAnswer", release.decode_result(stored))
            if release.call is not call:  # of its name
                call = release.call
                earlier = self._find_answer_to(call)
                if earlier is not None:
                    return earlier
            reply = self._sender.reply_to(call, wait)

            def wait_for_answer() -> PrivateAnswer:
                return self._wait_for_answer(call, deadline, wait)

            try:
                answer = cast("PrivateAnswer", release.run(reply, wait_for_answer))
                return PrivateAnswer(answer.record, reply)
            except ResultMissing:  # another program was granted it
                return wait_for_answer()

    def _find_answer_to(self, call: PreparedRequest) -> PrivateAnswer | None:
        """Return the answer to a call that was sent before, None where there is none."""
        found = self._find_record(call.dataset, call.caller, call.request_id, 0.0)
        is_its = found is not None and answers_request(call.body, found)
        return private_answer(found) if found is not None and is_its else None

    def _wait_for_answer(
        self, call: PreparedRequest, deadline: Deadline, wait: float
    ) -> PrivateAnswer:
        """Return the answer to a granted question.

        Raises: NotYetAnswered, AnswerFailed.
        """
        found = self._find_record(call.dataset, call.caller, call.request_id, deadline.remaining)
        if found is None:
            raise NotYetAnswered(call.dataset, call.request_id, wait)
        check_answer(call, found)
        return private_answer(found)

    def _find_record(
        self, dataset: str, analyst: str, request_id: str, wait: float
    ) -> NoisyAnswer | None:
        """Return the answer to a request, None if it does not come in time."""
        return self._connection.read(
            lambda service: look_for_answer(service, dataset, analyst, request_id, wait)
        )

    def _schema(self, dataset: str) -> Schema:
        found = self._schemas.get(dataset)  # it never changes
        if found is None:
            found = self._connection.read(lambda service: schema_of(service, dataset))
            self._schemas[dataset] = found
        return found

    def _question_draft(
        self,
        dataset: str,
        asked: AskedQuestion,
        analyst: str | None,
        purpose: str,
        request_id: str | UUID | None,
        via: str | None,
    ) -> RequestDraft:
        return draft_request(
            dataset,
            asked,
            optional_text("analyst", analyst) or default_analyst(self.analyst),
            purpose,
            None,
            None,
            request_id,
            optional_text("via", via) or optional_text("via", self.via),
            clock=self.clock,
            needs_analyst=not self._connection.token_source,
        )

    def _ledger(self) -> str:
        """Return the random id of a ledger in a file or behind a server, else "".

        Raises: NoSuchLedger: there is no file. Unavailable, LogDamaged: the file cannot be read.
        """
        if not self._ledger_id:
            self._ledger_id = self._connection.read(get_ledger_id)
        return self._ledger_id
