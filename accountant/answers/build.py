"""From a run to an answer: post-processing of noisy values, with schema and question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import overload

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from accountant.answers.answer import (
    FAILED,
    FAILED_SESSION,
    AnswerBounds,
    AnswerColumn,
    GroupColumn,
    NoisyAnswer,
    ShownLevel,
    StatisticNoise,
)
from accountant.answers.cost import cost_of, cost_text
from accountant.answers.intervals import (
    CONFIDENCE,
    carries_estimate,
    half_width,
    outward_decimals,
)
from accountant.answers.run import Noisy, Result, ShownSession
from accountant.claims import Claim
from accountant.questions import (
    CheckedQuestion,
    Draw,
    Noise,
    Question,
    Stop,
    fixed_noise_cost,
    levels_of,
    session_law,
)
from accountant.questions.decimals import decimal_text, round_half_up
from accountant.questions.error_at_confidence import confidence_of_each
from accountant.questions.plan import plan_of
from accountant.questions.quotients import Interval
from accountant.questions.schema import CategoryColumn, NumberColumn
from accountant.questions.sensitivity import VectorStatistic
from accountant.questions.statistics import EstimateQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A granted question: what an answer says of it, whatever the run.

    Attributes:
        dataset, request_id, analyst, question, noise, stop: of the request.
        grant: hash of the decision that granted it.
        claim: which that decision charged.
    """

    dataset: str
    request_id: str
    analyst: str
    grant: str
    question: Question
    noise: Noise
    claim: Claim
    stop: Stop | None = None


def failed_answer(granted: Granted) -> NoisyAnswer:
    """Return the answer of a question that could not be run: the same whatever the cause."""
    reason = FAILED if granted.stop is None else FAILED_SESSION
    return replace(_answer(granted), outcome="failed", reason=reason)


def answer_of(
    granted: Granted,
    result: Result,
    *,
    estimate_all: bool = False,
    zone_rules: str | UnsetType = UNSET,
) -> NoisyAnswer:
    """Return the answer of a run.

    Args:
        result: of `run_question`, with the same question, and a derivation of that claim.
        estimate_all: show an estimate whatever the noisy count is, as earlier versions did.
        zone_rules: the version of the rules by which dates were read, of a question that reads
            dates on the clocks of a zone.
    """
    checked, plan = result.checked, plan_of(result.checked)
    columns = [
        _column(
            replace_dataclass(
                result, checked=alone, noisy=tuple([result.noisy[i] for i in places])
            ),
            estimate_all=estimate_all,
        )
        for alone, places in zip(checked.alone, plan.of_each, strict=True)
    ]
    answer = replace(
        _answer(granted),
        groups=tuple([GroupColumn(column=g.heading, values=g.values) for g in checked.groups]),
        confidence=CONFIDENCE if any(each.low for each in columns) else UNSET,
        bounds=_bounds(checked),
        zone_rules=zone_rules if checked.reads_zone else UNSET,
        statistics=tuple(
            [
                _noise_of(noisy, len(result.noisy) > 1, part.scope if checked.each else None)
                for noisy, part in zip(result.noisy, plan.parts, strict=True)
            ]
        ),
    )
    if checked.each:
        return replace(answer, columns=tuple(columns))
    (only,) = columns
    answer = replace(answer, values=only.values, low=only.low, high=only.high)
    return answer if result.session is None else _with_session(answer, result.session)


def _column(result: Result, *, estimate_all: bool) -> AnswerColumn:
    """Return the values of one statistic with their intervals."""
    values, intervals, places = _shown(result.checked, result, estimate_all=estimate_all)
    ends = [None if each is None else outward_decimals(each, places) for each in intervals]
    column = result.checked.column
    return AnswerColumn(
        values=values,
        low=_texts([each and each[0] for each in ends], places),
        high=_texts([each and each[1] for each in ends], places),
        lower=column.lower if isinstance(column, NumberColumn) else UNSET,
        upper=column.upper if isinstance(column, NumberColumn) else UNSET,
    )


def _with_session(answer: NoisyAnswer, session: ShownSession) -> NoisyAnswer:
    """Return an answer with what its session showed, at the cost of its last level."""
    places = _places(session.draw)
    more = session_law(session.draw).digits_of_a_level
    levels = [
        ShownLevel(level=level.text, values=_texts(values, places + i * more))
        for i, (level, values) in enumerate(session.shown)
    ]
    last, values = session.shown[-1]
    fixed = fixed_noise_cost(session.stop, session.draw, last, values)
    name = next(iter(answer.cost))
    return replace(
        answer,
        levels=tuple(levels),
        stopped=session.stopped,
        cost={name: cost_text(last.cost)},
        reserved_cost=answer.cost,
        fixed_cost=UNSET if fixed is None else {name: cost_text(fixed)},
    )


def _answer(granted: Granted) -> NoisyAnswer:
    return NoisyAnswer(
        version=1,
        dataset=granted.dataset,
        request_id=granted.request_id,
        analyst=granted.analyst,
        grant=granted.grant,
        question=granted.question,
        noise=granted.noise,
        claim=granted.claim,
        stop=UNSET if granted.stop is None else granted.stop,
        outcome="answered",
        cost=cost_of(granted.claim, granted.noise),
    )


def _bounds(checked: CheckedQuestion) -> AnswerBounds:
    """Return what of the data may enter, by schema and question alone."""
    unit, column = checked.schema.unit, checked.column
    return AnswerBounds(
        rows=checked.rows,
        rows_per_group=UNSET if checked.rows_per_group >= checked.rows else checked.rows_per_group,
        unit=UNSET if unit is UNSET else unit.column,
        lower=column.lower if isinstance(column, NumberColumn) else UNSET,
        upper=column.upper if isinstance(column, NumberColumn) else UNSET,
    )


def _shown(
    checked: CheckedQuestion, result: Result, *, estimate_all: bool
) -> tuple[tuple[str | None, ...], Sequence[Interval | None], int]:
    """Return the values of the answer, their intervals, and how many digits both may have.

    A quotient without an estimate is None, and so is its interval. Source: the rule reads
    the noisy count and its declared noise alone, so it is post-processing of what is released.
    """
    question, parts = checked.statistic, result.noisy
    if parts[0].places:
        return _candidates(checked, parts[0]), [], 0
    confidence = confidence_of_each(Decimal(CONFIDENCE), _at_once(result))
    bounds = [_intervals(each, confidence) for each in parts]
    if not isinstance(question, EstimateQuestion):
        places = _places(parts[0].draw)
        if result.session is not None:
            more = session_law(parts[0].draw).digits_of_a_level
            places += (len(result.session.shown) - 1) * more
        return _texts(parts[0].values, places), bounds[0], places
    places = question.places(checked)
    unit = Fraction(1, 10**places)
    shown, intervals = list[Fraction | None](), list[Interval | None]()
    numbers = zip(*[each.values for each in parts], strict=True)
    for noisy, within in zip(numbers, zip(*bounds, strict=True), strict=True):
        carries = estimate_all or carries_estimate(within[0])
        value = question.value(checked, noisy) if carries else None
        shown.append(None if value is None else round_half_up(value, unit))
        intervals.append(question.interval(checked, within) if carries else None)
    return _texts(shown, places), intervals, places


def _at_once(result: Result) -> int:
    """Return how many intervals must hold for an answer's: of its parts, or of all levels."""
    session = result.session
    if session is None:
        return len(result.noisy)
    # Values decide where a relative error stops, and the interval must hold wherever that is.
    return len(levels_of(session.draw)) if session.stop.form == "relative_error" else 1


def _candidates(checked: CheckedQuestion, noisy: Noisy) -> tuple[str, ...]:
    """Return what was chosen, group by group."""
    column = checked.column
    chosen = [place for group in noisy.places for place in group]
    if isinstance(column, CategoryColumn):
        return tuple([column.categories[place] for place in chosen])
    assert isinstance(column, NumberColumn), "candidates are numbers or categories"
    lower = column.bounds[0]
    return tuple([decimal_text(lower + place * column.step_size) for place in chosen])


def _places(draw: Draw) -> int:
    """Return how many digits after the point a number on this statistic's grid may have."""
    assert isinstance(draw.statistic, VectorStatistic), "a choice has no grid"
    grid = draw.statistic.grid
    return len(str(grid.denominator)) - 1  # the grid is a power of 1/10


@overload
def _texts(values: Sequence[Fraction], places: int) -> tuple[str, ...]: ...


@overload
def _texts(values: Sequence[Fraction | None], places: int) -> tuple[str | None, ...]: ...


def _texts(values: Sequence[Fraction | None], places: int) -> tuple[str | None, ...]:
    return tuple([None if each is None else decimal_text(each, places) for each in values])


def _intervals(noisy: Noisy, confidence: Decimal) -> list[Interval]:
    """Return an interval for each noisy number."""
    width = half_width(noisy.draw, confidence)
    return [(each - width, each + width) for each in noisy.values]


def _noise_of(noisy: Noisy, is_part: bool, among: CheckedQuestion | None) -> StatisticNoise:
    """Return the noise of a draw.

    Args:
        is_part: its numbers are not the answer's values.
        among: the statistic of several that it is of, None of a question with one.
    """
    draw, column = noisy.draw, None if among is None else among.column
    if draw.statistic.name == "count" and column is not None and column.missing is not UNSET:
        column = None
    return StatisticNoise(
        statistic=draw.statistic.name,
        law=draw.law,
        scale=UNSET if draw.scale is None else str(draw.scale),
        variance=UNSET if draw.variance is None else str(draw.variance),
        values=_texts(noisy.values, _places(draw)) if is_part and noisy.values else (),
        column=UNSET if column is None else column.name,
    )
