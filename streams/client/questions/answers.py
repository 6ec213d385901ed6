"""`PrivateAnswer`: the answer to a question, for programs and notebooks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.answers import (
    AnswerRow,
    NoisyAnswer,
    PairEstimate,
    StatisticNoise,
    compare_groups,
    decode_answer,
    encode_answer,
)
from accountant.answers.pairs import Comparison, Group
from accountant.display.answers import answer_html, answer_text
from accountant.display.endings import ending_words
from accountant.errors import BudgetError, RequestInvalid
from accountant.questions import Noise, Question, Stop
from accountant.questions.question_text import parse_statistic, statistic_text
from accountant.questions.statistics import SeveralQuestion, StatisticQuestion
from accountant.records import Decision
from accountant.records.outcomes import Outcome
from streams.client.questions.asked_question import AskedQuestion
from streams.client.releases.grants import Codec
from streams.client.requests.requests import PreparedRequest, unanswered_error
from streams.errors import Unavailable
from streams.notebooks.display import remaining_words
from streams.notebooks.frames import arrow_table, pandas_frame
from streams.replies.reply import Reply
from streams.replies.shown_amounts import SpentAmounts

_LARGEST: Final = 2**63


class _AskedFields(msgspec.Struct):
    question: Question
    noise: Noise
    stop: Stop | UnsetType = UNSET


_decode_asked = msgspec.json.Decoder(_AskedFields).decode


class AnswerFailed(BudgetError):
    """The question was granted, and could not be run.

    Its charge stays, unless it is a session that never began: its reservation can be voided.

    Attributes:
        record: the answer, which has no values.
        request_id: of the request.
    """

    def __init__(self, record: NoisyAnswer) -> None:
        self.record = record
        self.request_id = record.request_id
        super().__init__(
            f"{record.reason}. Whoever runs the questions on {record.dataset} finds the cause in "
            f"the server's log. Request {record.request_id} has this answer for ever: ask again "
            "without its id once the cause is mended"
        )


class NotYetAnswered(Unavailable):
    """The question is granted and charged, and has no answer yet.

    Attributes:
        request_id: to read the answer later. It is never charged twice.
    """

    def __init__(self, dataset: str, request_id: str, wait: float) -> None:
        self.request_id = request_id
        super().__init__(
            f"the question is granted, and has no answer after {wait:g} s. Read it later with "
            f"find_answer({dataset!r}, {request_id!r}), or ask again with that request_id: it is "
            "never charged twice"
        )


class AnswerColumns(dict[str, "PrivateAnswer"]):
    """Answers by the text of their statistic, which may be spelt in any way that a question may."""

    def __missing__(self, text: str) -> PrivateAnswer:
        with contextlib.suppress(RequestInvalid):
            name = statistic_text(parse_statistic(text))
            if name in self:
                return self[name]
        raise KeyError(f"{text}: the columns of this answer are {', '.join(self)}")


class PrivateAnswer:
    """The noisy answer to a question. It is text with `str`, and a table in a notebook.

    Attributes:
        record: the answer as it is stored.
        dataset, request_id: of the request.
        left: what was left of the dataset's budget once this answer was charged, by sum; empty if
            this call did not charge it, or charged a session, which is settled later.
    """

    __slots__ = ("_notes", "dataset", "left", "record", "request_id")

    def __init__(self, record: NoisyAnswer, charged: Reply | None = None) -> None:
        """Make an answer of its record.

        Args:
            charged: the reply of the call that charged the answer, if this one did.
        """
        if charged is None or charged.outcome is not Outcome.GRANTED:
            self.left, self._notes = dict[str, Decimal](), list[str]()
        else:
            self.left, self._notes = charged.left, _notes_of(charged.decision)
        self.record = record
        self.dataset = record.dataset
        self.request_id = record.request_id

    @property
    def value(self) -> Decimal | str | None:
        """The value, of an answer that has one. None where there is no estimate.

        Raises: ValueError: it has several: read `values`.
        """
        return self.values[self._only("value", "values")]

    @property
    def values(self) -> list[Decimal | str | None]:
        """The values, group by group: numbers, or the categories of a `top`. They are exact.

        None for a quotient, such as a mean, without an estimate: its noisy count may be of no rows.
        """
        if self._question("values").chooses_categories:
            return list(self.record.values)
        return [_number(each) for each in self.record.values]

    @property
    def columns(self) -> dict[str, PrivateAnswer]:
        """Of several statistics, the answer to each by its text, such as `mean(income)`.

        The answer to one statistic is its only column. Each has the cost of the whole answer.
        """
        question = self.record.question
        each = question.statistics if isinstance(question, SeveralQuestion) else (question,)
        alone = map(PrivateAnswer, self.record.alone)
        return AnswerColumns(zip(map(statistic_text, each), alone, strict=True))

    def _question(self, name: str) -> StatisticQuestion:
        """Return the question of one statistic. Raises: ValueError: there are several."""
        question = self.record.question
        if isinstance(question, SeveralQuestion):
            first = statistic_text(question.statistics[0])
            raise ValueError(
                f"this answer has {len(question.statistics)} columns. Read "
                f"`columns[{first!r}].{name}` in place of `{name}`"
            )
        return question

    @property
    def interval(self) -> tuple[Decimal, Decimal] | None:
        """The interval of the one value, None of a choice and where there is no estimate.

        It is of the rows within the bounds. Noise is all that it accounts for.

        Raises: ValueError: there are several values: read `intervals`.
        """
        i = self._only("interval", "intervals")
        return self.intervals[i] if self.intervals else None

    @property
    def intervals(self) -> list[tuple[Decimal, Decimal] | None]:
        """The interval of each value, none of choices. Each holds with `confidence` by itself.

        None where there is no estimate.
        """
        self._question("intervals")
        ends = zip(self.record.low, self.record.high, strict=True)
        return [
            None if low is None or high is None else (Decimal(low), Decimal(high))
            for low, high in ends
        ]

    @property
    def rank_error(self) -> Decimal | None:
        """Of a choice, how many rows it is at most from the best candidate; None of numbers.

        A quantile has at most so many rows too many below it, or above it, beyond those of the best
        candidate. A category has at most so many rows fewer than the best one left. It holds with
        `confidence`, and depends on schema, question and noise alone.
        """
        self._question("rank_error")
        return _number(self.record.rank_error or None)

    def difference(
        self, first: Group, second: Group, *, simultaneous: bool = False
    ) -> PairEstimate:
        """Return the difference of two groups' numbers, with an interval by the noise of both.

        It costs nothing. The interval holds for two groups that are named before looking.

        Args:
            first, second: declared values; of several columns of groups, a tuple of one of each.
            simultaneous: let the intervals of all pairs hold at once, to name any after looking;
                of differences alone, or of ratios alone.
        Raises: RequestInvalid: a group is none of the answer's, or it has no intervals.
        """
        self._question("difference(...)")
        return self._compare("difference", first, second, simultaneous)

    def ratio(self, first: Group, second: Group, *, simultaneous: bool = False) -> PairEstimate:
        """Return the ratio first / second, as `difference` does.

        Its value and interval are None where the second group may be 0, or of no rows.
        """
        self._question("ratio(...)")
        return self._compare("ratio", first, second, simultaneous)

    def _compare(
        self, comparison: Comparison, first: Group, second: Group, simultaneous: bool
    ) -> PairEstimate:
        return compare_groups(self.record, comparison, first, second, simultaneous=simultaneous)

    @property
    def confidence(self) -> Decimal | None:
        """The probability with which an interval or a rank error holds, whatever the data are."""
        return Decimal(self.record.confidence) if self.record.confidence else None

    @property
    def cost(self) -> dict[str, Decimal]:
        """What the answer costs by its claim, as an epsilon or a rho."""
        return SpentAmounts({name: Decimal(text) for name, text in self.record.cost.items()})

    @property
    def noise(self) -> Sequence[StatisticNoise]:
        """The law of the noise of each statistic, with its `scale` or `variance`, exactly."""
        return self.record.statistics

    @property
    def groups(self) -> list[tuple[str | bool, ...]]:
        """The group of each value; empty tuples without groups."""
        return [row.group for row in self.record.alone[0].rows()]

    def rows(self) -> list[AnswerRow]:
        """Return each value with its group and its interval, as they are stored."""
        self._question("rows()")
        return list(self.record.rows())

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`: a column for each group, `value`, `low` and `high`.

        Of several statistics it has such columns of each, as in `count`, `count low`, `count high`.

        Whole numbers are integers, others floats; `values` has them exactly. NaN, in Arrow null, is
        no estimate.

        Raises: ImportError: pandas is not installed.
        """
        return pandas_frame(self._columns())

    def to_arrow(self) -> Any:
        """Return the same as a `pyarrow.Table`.

        Raises: ImportError: pyarrow is not installed.
        """
        return arrow_table(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        rows = list(self.record.alone[0].rows())
        columns: dict[str, list[Any]] = {
            column.column: [row.group[i] for row in rows]
            for i, column in enumerate(self.record.groups)
        }
        if isinstance(self.record.question, SeveralQuestion):
            for name, answer in self.columns.items():
                columns |= answer._value_columns(name, f"{name} ")
            return columns
        if self.record.question.is_ranked:
            columns["rank"] = [row.rank + 1 for row in rows]
        return columns | self._value_columns("value", "")

    def _value_columns(self, name: str, before: str) -> dict[str, list[Any]]:
        """Return the values as a column of a frame, and the ends of their intervals."""
        if self._question("values").chooses_categories:
            return {name: list(self.record.values)}
        columns = {name: _numbers(self.record.values)}
        if self.record.low:
            columns[f"{before}low"] = _numbers(self.record.low)
            columns[f"{before}high"] = _numbers(self.record.high)
        return columns

    def _only(self, name: str, instead: str) -> int:
        self._question(name)
        number = len(self.record.values)
        if number != 1:
            raise ValueError(
                f"this answer has {number} values. Read `{instead}` in place of `{name}`"
            )
        return 0

    def __float__(self) -> float:
        if self.value is None:
            raise ValueError("there is no estimate: the noisy count may be of no rows at all")
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        return self.record == other.record if isinstance(other, PrivateAnswer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.record.grant)

    def __str__(self) -> str:
        return "\n".join([answer_text(self.record), *self._notes])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {answer_text(self.record)}>"

    def _repr_html_(self) -> str:
        return answer_html(self.record) + "".join(f"<p>{each}</p>" for each in self._notes)


def _notes_of(decision: Decision) -> list[str]:
    """Return what a decision leaves of the dataset's budget, and what it ended for good."""
    remaining, ended = remaining_words(decision), ending_words(decision)
    notes = [f"the dataset has {remaining}"] if remaining else []
    return [*notes, f"the question ended {ended}"] if ended else notes


def _number(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _numbers(texts: Sequence[str | None]) -> list[Any]:
    """Return numbers as integers if all of them are whole, else as floats; None stays."""
    exact = [_number(text) for text in texts]
    whole = all(
        each is None or (each == each.to_integral_value() and abs(each) < _LARGEST)
        for each in exact
    )
    kind = int if whole else float
    return [None if each is None else kind(each) for each in exact]


def private_answer(record: NoisyAnswer) -> PrivateAnswer:
    """Return the answer for a program.

    Raises: AnswerFailed: the question could not be run.
    """
    if record.outcome == "failed":
        raise AnswerFailed(record)
    return PrivateAnswer(record)


def answers_request(body: bytes, record: NoisyAnswer) -> bool:
    """Whether an answer is to the question of a request, with its noise."""
    asked = _decode_asked(body)
    return AskedQuestion(asked.question, asked.noise, asked.stop).is_answered_by(record)


def check_answer(call: PreparedRequest, record: NoisyAnswer) -> None:
    """Check that an answer is to the question of a call.

    Raises: Unanswered: it is to another question.
    """
    if not answers_request(call.body, record):
        why = "the answer is to another question: a proxy or a cache may mix up responses"
        raise unanswered_error(call, why)


def _encode(answer: PrivateAnswer) -> bytes:
    return encode_answer(answer.record)


def _decode(data: bytes) -> PrivateAnswer:
    return PrivateAnswer(decode_answer(data))


ANSWER_CODEC: Final = Codec(_encode, _decode)
"""How a store of results has answers: by their canonical bytes."""
