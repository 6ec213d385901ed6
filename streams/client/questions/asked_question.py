"""What a call asks of the data: the question, its noise, and when a session stops."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypedDict, cast

import msgspec
from msgspec import UNSET, UnsetType

from accountant.answers import NoisyAnswer
from accountant.errors import RequestInvalid
from accountant.questions import (
    Noise,
    Question,
    Schema,
    Stop,
    check_question,
    check_stop,
    noise_text,
    parse_question,
    parse_stop,
    question_text,
    stop_text,
)
from accountant.questions.group_functions import parse_group, parse_groups
from accountant.questions.laws import ACCURACY_FIRST, FORMS, is_session
from accountant.questions.noise import NoiseForm, NoiseLaw
from accountant.questions.noise_wanted import check_noise_wanted, weights_of
from accountant.questions.plan import check_weights
from accountant.questions.statistics import STATISTICS, SeveralQuestion
from accountant.questions.statistics.base import ColumnQuestion, QuestionClauses
from accountant.records.coerce import coerce_text, coerce_texts
from streams.client.releases.store import ResultStore

Amount = str | Decimal | int | float
"""An exact amount: `"0.5"`, `Decimal("0.5")`, 0.5 or 1."""
CONFIDENCE: Final = "0.95"
UNTIL: Final = "PT1H"
_WRITTEN_DIGITS: Final = 6
"""A float that prints with at most so many was typed, also one of 32 bits."""
_OF_QUESTIONS: Final = ("fraction", "width", "clamp[0]", "clamp[1]")
_CLAUSES: Final = (*QuestionClauses.__struct_fields__, "clamp", "width")
_SAMPLE: Final = 'epsilon="0.5", rho="0.01", sigma="20" or error="50"'


class NoiseArguments(TypedDict, total=False):
    """How much noise an answer gets: exactly one of the first four, and perhaps others.

    Attributes:
        epsilon, rho: what the answer may cost.
        sigma: the standard deviation of the noise of each number.
        error: each number is within it, with the probability `confidence`, by default 0.95.
        law: of the noise; by default the first that the reference names for the argument.
        relative_error: ask accuracy first: the answer stops where each number is within this part
            of its value, and costs no more than it needs. The argument above is the most that it
            may cost.
        stop: the same with another rule, as in `error: 50 at 0.9`.
        first: of such a session, the largest noise that it begins with.
        until: of such a session, how long it may take; by default an hour.
        weights: of several statistics, by which they divide the amount, as in `"1 2 1"` or
            `[1, 2, 1]`; equal by default.
    """

    epsilon: Amount | None
    rho: Amount | None
    sigma: Amount | None
    error: Amount | None
    confidence: Amount | None
    law: NoiseLaw | None
    relative_error: Amount | None
    stop: str | Stop | None
    first: Amount | None
    until: str
    weights: str | Sequence[int] | None


class AnswerArguments(NoiseArguments, total=False):
    """The arguments of `answer`: those of the noise, and these of a request.

    Attributes:
        analyst, purpose, request_id, via, store, once, new: as of `release`.
        wait: seconds to wait for the decision and for the answer, by default 60.
    """

    analyst: str | None
    purpose: str
    request_id: str | None
    via: str | None
    wait: float
    store: ResultStore | str | os.PathLike[str] | None
    once: str | None
    new: bool


class QuestionArguments(AnswerArguments, total=False):
    """The arguments of each statistic: those of `answer`, and the clauses of its question.

    Attributes:
        where: a filter such as `age > 65 and region = 'north'`.
        by: columns, or functions such as `month(visited)`; there is a value for each combination
            of their declared values.
        rows: the most rows of one unit that enter, at most as many as the schema says.
        rows_per_group: the most of them in each group.
        clamp: of a statistic of numbers, two narrower bounds, such as `[0, 5000]`.
        width: of a histogram of numbers, the width of its bands.
    """

    where: str
    by: str | Sequence[str]
    rows: int | None
    rows_per_group: int | None
    clamp: Sequence[Amount] | None
    width: Amount | None


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its noise, in the place of a request's claim.

    Attributes:
        stop, until: of a session alone: when it stops, and how long it may take.
    """

    question: Question
    noise: Noise
    stop: Stop | UnsetType = UNSET
    until: str | None = None

    @property
    def text(self) -> str:
        """The question in words, with its noise."""
        text = f"{question_text(self.question)} ({noise_text(self.noise)})"
        return text if self.stop is UNSET else f"{text} until {stop_text(self.stop)}"

    def is_answered_by(self, record: NoisyAnswer) -> bool:
        """Whether an answer is to this question, with this noise."""
        asked = (self.question, self.noise, self.stop)
        return asked == (record.question, record.noise, record.stop)


def take_noise(arguments: QuestionArguments) -> dict[str, Any]:
    """Remove the arguments of the noise from a call's, and return them.

    Raises: TypeError: the call has an argument that no question has.
    """
    for name in arguments.keys() - AnswerArguments.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {name!r}")
    return _take(arguments, NoiseArguments.__annotations__)


def take_question(ask: str, arguments: QuestionArguments, **fields: object) -> Question:
    """Remove the clauses of a question from a call's arguments, and return the question.

    Raises: RequestInvalid: an argument has another type.
    """
    return question_of(ask, **fields, **_take(arguments, _CLAUSES))


def _take(arguments: QuestionArguments, names: Iterable[str]) -> dict[str, Any]:
    rest = cast("dict[str, Any]", arguments)
    return {name: rest.pop(name) for name in names if name in rest}


def asked_question(
    question: str | Question,
    schema: Schema,
    *,
    until: object = UNTIL,
    **noise: object,
) -> AskedQuestion:
    """Return a question with its noise, if the schema allows it.

    Args:
        noise: the other `NoiseArguments`.
    Raises: RequestInvalid: naming field, rule and value, or the place in its text.
    """
    wanted, stop = noise_of(**noise)
    text = coerce_text("until", until)
    checked = checked_question(question, schema)
    check_weights(wanted, len(checked.statistics) if isinstance(checked, SeveralQuestion) else 1)
    return AskedQuestion(checked, wanted, stop, text if is_session(wanted) else None)


def noise_of(
    *,
    epsilon: object = None,
    rho: object = None,
    sigma: object = None,
    error: object = None,
    confidence: object = None,
    law: object = None,
    relative_error: object = None,
    stop: object = None,
    first: object = None,
    weights: object = None,
) -> tuple[Noise, Stop | UnsetType]:
    """Return the noise of a call's arguments, and the rule by which a session stops.

    Raises: RequestInvalid.
    """
    forms = {"epsilon": epsilon, "rho": rho, "sigma": sigma, "error": error}
    given = {name: value for name, value in forms.items() if value is not None}
    if len(given) != 1:
        named = " and ".join(given) or "none of them"
        raise RequestInvalid("noise", f"must be one of {_SAMPLE}", named)
    until = _stop_of(relative_error, stop, confidence)
    fields: dict[str, Any] = {name: _amount(name, value) for name, value in given.items()}
    (form,) = cast("dict[NoiseForm, str]", fields)
    if form == "error":
        fields["confidence"] = _confidence(confidence)
    elif confidence is not None and relative_error is None:
        rule = "must be given with error, or relative_error"
        raise RequestInvalid("confidence", rule, confidence)
    if law is not None:
        fields["law"] = coerce_text("law", law)
    elif until is not UNSET:
        fields["law"] = next(each for each in FORMS[form] if each in ACCURACY_FIRST)
    if first is not None:
        fields["first"] = _amount("first", first)
    if weights is not None:
        fields["weights"] = _weights(weights)
    noise = check_noise_wanted(Noise(**fields))
    if is_session(noise) is not (until is not UNSET):
        what = "must be given with" if is_session(noise) else "must be left out without"
        raise RequestInvalid("stop", f"{what} the law of a session", noise.law or "the default law")
    return noise, until


def _weights(value: object) -> tuple[int, ...]:
    """Return whole numbers. Raises: RequestInvalid."""
    if isinstance(value, str):
        return weights_of(value)
    each: list[Any] = list(value) if isinstance(value, Iterable) else [None]
    if any(isinstance(one, bool) or not isinstance(one, numbers.Integral) for one in each):
        raise RequestInvalid("weights", "must be whole numbers such as [1, 2, 1]", value)
    return tuple(int(one) for one in each)


def _stop_of(relative_error: object, stop: object, confidence: object) -> Stop | UnsetType:
    if relative_error is not None:
        if stop is not None:
            raise RequestInvalid("stop", "must be left out where relative_error is given", stop)
        part = _amount("relative_error", relative_error)
        return check_stop(Stop(relative_error=part, confidence=_confidence(confidence)))
    if stop is None:
        return UNSET
    return check_stop(stop) if isinstance(stop, Stop) else parse_stop(coerce_text("stop", stop))


def _confidence(value: object) -> str:
    return CONFIDENCE if value is None else _amount("confidence", value)


def _amount(field: str, value: object) -> str:
    """Return the text of an exact amount; a float of a few digits is what was written.

    Raises: RequestInvalid: it is a float of more digits, such as 1/3, which was computed.
    """
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    if not isinstance(value, bool) and isinstance(value, numbers.Integral):
        return str(int(value))  # numpy's integers, too
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        written = Decimal(str(value))
        if written.is_finite() and len(written.as_tuple().digits) <= _WRITTEN_DIGITS:
            return f"{written.normalize():f}"
        rule = "must be an exact amount, such as the text in quotes"
        raise RequestInvalid(field, rule, value, hint=lambda: _quoted(field, value))
    return coerce_text(field, value)


def _quoted(field: str, value: numbers.Real) -> str:
    """Return how to write a float as text: as it prints, without the type that numpy's repr has.

    A number of a question has fewer digits than an amount.
    """
    if not math.isfinite(value):
        return ""
    exact = Decimal(str(value))
    short = round(exact, _WRITTEN_DIGITS).normalize() if field in _OF_QUESTIONS else exact
    return f'write {field}="{short:f}"'


def question_of(
    ask: str,
    *,
    where: object = "",
    by: object = (),
    rows: object = None,
    rows_per_group: object = None,
    **fields: object,
) -> Question:
    """Return the question of a call's arguments, before a schema has checked it.

    Raises: RequestInvalid: an argument has another type.
    """
    wire: dict[str, object] = {"ask": ask, "where": coerce_text("where", where)}
    groups = parse_groups(by) if isinstance(by, str) else map(parse_group, coerce_texts("by", by))
    wire["by"] = [msgspec.to_builtins(each) for each in groups]
    if "column" in fields:
        wire["column"] = coerce_text("column", fields["column"])
    if fields.get("clamp") is not None:
        wire["clamp"] = _bounds(ask, fields["clamp"])
    if fields.get("width") is not None:
        if ask != "histogram":
            raise RequestInvalid("width", "must be left out but for a histogram", fields["width"])
        wire["width"] = _amount("width", fields["width"])
    if "fraction" in fields:
        wire["fraction"] = _amount("fraction", fields["fraction"])
    numbers_of = {"rows": rows, "rows_per_group": rows_per_group, "most": fields.get("most")}
    for name, value in numbers_of.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise RequestInvalid(name, "must be a whole number", value)
        wire[name] = int(value)
    return msgspec.convert(wire, Question)  # type: ignore[no-any-return]


def _bounds(ask: str, value: object) -> list[str]:
    """Return the texts of two bounds. Raises: RequestInvalid."""
    if not issubclass(STATISTICS[ask], ColumnQuestion):
        raise RequestInvalid("clamp", "must be left out of a count: it reads no column", value)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise RequestInvalid("clamp", "must be two numbers, such as [0, 5000]", value)
    return [_amount(f"clamp[{i}]", each) for i, each in enumerate(value)]


def checked_question(question: str | Question, schema: Schema) -> Question:
    """Return a question in its canonical form, if the schema allows it.

    Raises: RequestInvalid: naming field, rule and value, or the place in its text.
    """
    if isinstance(question, Question):
        return check_question(question, schema).question
    return parse_question(coerce_text("question", question), schema).question
