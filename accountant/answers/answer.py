"""Answers: the wire type of what a question's run shows, and its canonical bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from accountant.claims import Claim
from accountant.field_rules import Amounts, Confidence, Name, Note, RequestId
from accountant.questions import Noise, Question, Stop
from accountant.questions.noise import NoiseLaw
from accountant.questions.sensitivity import SelectionName, VectorName
from accountant.questions.statistics import SeveralQuestion

Version = Literal[1]
Outcome = Literal["answered", "failed"]
GroupValue = str | bool

FAILED: Final = "the question could not be run; its cost stays charged"
"""The one reason of an answer that failed, whatever the cause: a cause may depend on the data."""
FAILED_SESSION: Final = (
    "the question could not be run; if its session began, its maximum stays charged, and if not, "
    "the reservation can be voided"
)
"""The same of an accuracy-first question. Whether its session began is in the log."""


class _Fields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Base of what an answer is made of: a field at its default is left out."""


class GroupColumn(_Fields, frozen=True):
    """What sets the answer's values apart.

    Attributes:
        column: a column's name, or the text of a function of it, such as `month(visited)`.
        values: those declared in the schema, in its order, whether or not there are such rows.
    """

    column: str
    values: tuple[GroupValue, ...]


class AnswerBounds(_Fields, frozen=True):
    """What of the data entered the statistics: declared, so that it tells nothing of the data.

    Attributes:
        rows: the most rows of a unit that entered.
        rows_per_group: the most of them in each group, if these are fewer.
        size: how many rows enter a quotient, where the schema states it: no count is drawn.
        unit: the column that names the unit of each row; left out, each row is a unit.
        lower, upper: of a question on a number column, its bounds; a number outside them counts
            as the nearer one.
    """

    rows: int
    unit: str | UnsetType = UNSET
    lower: str | UnsetType = UNSET
    upper: str | UnsetType = UNSET
    rows_per_group: int | UnsetType = UNSET
    size: int | UnsetType = UNSET


class StatisticNoise(_Fields, frozen=True):
    """The noise of one statistic that the answer is computed from.

    Attributes:
        law: as of the request's noise, or `gumbel`.
        scale: of discrete Laplace and Gumbel noise, in the statistic's units (Gumbel: of its
            scores): an integer or a quotient of two, such as `1250000/74141`.
        variance: of Gaussian noise, in squared units, as `scale`.
        values: the noisy statistic, one number for each group, where the answer's values are
            computed from several.
        grid: of numbers, on whose multiples they are.
        column: in an answer of several columns, the number column that it is of; of a count,
            that whose missing values are left out of it, if any.
    """

    statistic: VectorName | SelectionName
    law: NoiseLaw | Literal["gumbel"]
    scale: str | UnsetType = UNSET
    variance: str | UnsetType = UNSET
    values: tuple[str, ...] = ()
    grid: str = "1"
    column: str | UnsetType = UNSET


class AnswerColumn(_Fields, frozen=True):
    """The values of one of several statistics.

    Attributes:
        values, low, high, rank_error: as of an answer to this statistic alone.
        lower, upper: of a number column, its bounds.
        parts: the places, among the answer's `statistics`, of those that it is computed from.
    """

    values: tuple[str | None, ...]
    parts: tuple[int, ...]
    low: tuple[str | None, ...] = ()
    high: tuple[str | None, ...] = ()
    lower: str | UnsetType = UNSET
    upper: str | UnsetType = UNSET
    rank_error: str | UnsetType = UNSET

    @property
    def has_error(self) -> bool:
        """Whether it says how far its values may be off, with a confidence."""
        return bool(self.low) or self.rank_error is not UNSET


class ShownLevel(_Fields, frozen=True):
    """What a session showed at one level.

    Attributes:
        level: the scale or the variance of its noise, as a reservation settles at it.
        values: one for each group.
    """

    level: str
    values: tuple[str, ...]


class NoisyAnswer(_Fields, frozen=True, tag_field="type", tag="answer"):
    """What an analyst gets for a question: noisy values, and what follows from them.

    Attributes:
        dataset, request_id, analyst: of the request.
        grant: the hash of the decision that granted it.
        question, noise, stop: as asked.
        claim: as charged.
        outcome: `failed` has no values.
        cost: by the claim alone: an epsilon or a rho, rounded up.
        reason: of a failure, always `FAILED`, or `FAILED_SESSION`.
        groups: columns of the groups, the last one changing fastest; () without groups.
        values: the answer, group by group; a `top` has as many in each group as it asks for. None
            of a quotient whose noisy count carries no estimate. () of several statistics.
        columns: the values of each of several statistics, in the order of the question.
        low, high: ends of an interval around each value, () of choices.
        rank_error: of choices, how many rows each is at most from the best candidate: too many on
            one side of a quantile, too few of a category. By schema, question and noise alone.
        confidence: the probability with which an interval or a rank error holds, if there are any.
        bounds: which the values keep to.
        statistics: the noise of each statistic that the values are computed from.
        levels: of a session, all that it showed; the last one is the answer.
        stopped: of a session, its rule was reached.
        reserved_cost: of a session, what its finest level would have cost.
        fixed_cost: of a session that stopped, what noise fixed in advance would have cost that
            reaches the rule's error for these values; see `fixed_noise_cost`.
        zone_rules: of a question that reads dates or times on the clocks of the schema's zone: the
            version of the rules that said what they show, such as `tzdata 2026.6`.
    """

    version: Version
    dataset: Name
    request_id: RequestId
    analyst: Name
    grant: str
    question: Question
    noise: Noise
    claim: Claim
    outcome: Outcome
    cost: Amounts
    stop: Stop | UnsetType = UNSET
    reason: Note | UnsetType = UNSET
    groups: tuple[GroupColumn, ...] = ()
    values: tuple[str | None, ...] = ()
    low: tuple[str | None, ...] = ()
    high: tuple[str | None, ...] = ()
    confidence: Confidence | UnsetType = UNSET
    bounds: AnswerBounds | UnsetType = UNSET
    statistics: tuple[StatisticNoise, ...] = ()
    levels: tuple[ShownLevel, ...] = ()
    stopped: bool | UnsetType = UNSET
    reserved_cost: Amounts | UnsetType = UNSET
    fixed_cost: Amounts | UnsetType = UNSET
    columns: tuple[AnswerColumn, ...] = ()
    zone_rules: Note | UnsetType = UNSET
    rank_error: str | UnsetType = UNSET

    @property
    def shown(self) -> str | None:
        """The last level of a session, at which it is settled; None where it showed none."""
        return self.levels[-1].level if self.levels else None

    def rows(self) -> Iterator[AnswerRow]:
        """Yield each value with its group."""
        values, each = iter(range(len(self.values))), self.in_each_group
        for group in product(*(column.values for column in self.groups)):
            for rank in range(each):
                i = next(values, None)
                if i is None:
                    return
                ends = (self.low[i], self.high[i]) if self.low else (None, None)
                yield AnswerRow(group, rank, self.values[i], *ends)

    @property
    def in_each_group(self) -> int:
        """How many values each group has."""
        return 1 if isinstance(self.question, SeveralQuestion) else self.question.in_each_group

    @property
    def alone(self) -> tuple[NoisyAnswer, ...]:
        """Each of its columns as the answer to its statistic alone; this one if it has none."""
        question = self.question
        if not isinstance(question, SeveralQuestion) or not self.columns:
            return (self,)
        return tuple(
            [
                replace(
                    self,
                    question=statistic,
                    values=column.values,
                    low=column.low,
                    high=column.high,
                    rank_error=column.rank_error,
                    confidence=self.confidence if column.has_error else UNSET,
                    bounds=UNSET
                    if self.bounds is UNSET
                    else replace(self.bounds, lower=column.lower, upper=column.upper),
                    statistics=tuple([self.statistics[place] for place in column.parts]),
                    columns=(),
                )
                for statistic, column in zip(question.alone, self.columns, strict=True)
            ]
        )


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One value of an answer.

    Attributes:
        group: its declared values, in the order of the answer's `groups`.
        rank: of a `top`, 0 for the candidate that was chosen first; else 0.
        value: a decimal, or a category; None where there is no estimate.
        low, high: ends of its interval, None without one.
    """

    group: tuple[GroupValue, ...]
    rank: int
    value: str | None
    low: str | None
    high: str | None


_decoder = msgspec.json.Decoder(NoisyAnswer)


def encode_answer(answer: NoisyAnswer) -> bytes:
    """Return the canonical bytes of an answer: equal answers have equal bytes."""
    return msgspec.json.encode(answer, order="deterministic")


def decode_answer(data: bytes) -> NoisyAnswer:
    """Return the answer of canonical bytes.

    Raises: ValueError: they are not those of an answer, or of a newer version's.
    """
    try:
        answer = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not an answer: {error}") from None
    if encode_answer(answer) != data:
        raise ValueError("not the canonical bytes of an answer")
    _check_sizes(answer)
    return answer


def _check_sizes(answer: NoisyAnswer) -> None:
    columns = 0
    if isinstance(answer.question, SeveralQuestion) and answer.outcome == "answered":
        columns = len(answer.question.statistics)
    if len(answer.columns) != columns:
        raise ValueError(f"an answer must have {columns} columns, got {len(answer.columns)}")
    if answer.columns and (answer.values or answer.low or answer.high):
        raise ValueError("an answer of several statistics must have its values in columns")
    places = range(len(answer.statistics))
    if any(place not in places for each in answer.columns for place in each.parts):
        raise ValueError("a column must be computed from the answer's statistics")
    for each in answer.alone:
        _check_column(each)


def _check_column(answer: NoisyAnswer) -> None:
    cells = math.prod(len(column.values) for column in answer.groups)
    number = cells * answer.in_each_group if answer.outcome == "answered" else 0
    if len(answer.values) != number:
        raise ValueError(f"an answer must have {number} values, got {len(answer.values)}")
    if {len(answer.low), len(answer.high)} not in ({0}, {number}):
        raise ValueError("an answer must have an interval for each value, or none")
    missing = [each is None for each in answer.values]
    for ends in (answer.low, answer.high):
        if ends and [each is None for each in ends] != missing:
            raise ValueError("an answer must have an interval for each estimate, and for no other")
