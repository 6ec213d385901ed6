"""From a run to an answer: post-processing of noisy values, with schema and question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import compress
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
    carries_estimate,
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
from accountant.questions.draw_errors import CONFIDENCE, half_width, noises_of, rank_error
from accountant.questions.error_at_confidence import confidence_of_each
from accountant.questions.plan import plan_of, shows_its_draw
from accountant.questions.quotients import Interval
from accountant.questions.schema import CategoryColumn, NumberColumn
from accountant.questions.sensitivity import SelectionStatistic
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
    zone_rules: str | UnsetType = UNSET,
) -> NoisyAnswer:
    """Return the answer of a run.

    Args:
        result: of `run_question`, with the same question, and a derivation of that claim.
        zone_rules: the version of the rules by which dates were read, of a question that reads
            dates on the clocks of a zone.
    """
    checked, plan = result.checked, plan_of(result.checked)
    columns = [
        _column(
            replace_dataclass(
                result, checked=alone, noisy=tuple([result.noisy[i] for i in places])
            ),
            places,
        )
        for alone, places in zip(checked.alone, plan.of_each, strict=True)
    ]
    answer = replace(
        _answer(granted),
        groups=tuple([GroupColumn(column=g.heading, values=g.values) for g in checked.groups]),
        confidence=CONFIDENCE if any(each.has_error for each in columns) else UNSET,
        bounds=_bounds(checked),
        zone_rules=zone_rules if checked.reads_zone else UNSET,
        statistics=tuple(
            [
                _noise_of(noisy, not shows_its_draw(checked), part.scope if checked.each else None)
                for noisy, part in zip(result.noisy, plan.parts, strict=True)
            ]
        ),
    )
    if checked.each:
        return replace(answer, columns=tuple(columns))
    (only,) = columns
    answer = replace(
        answer, values=only.values, low=only.low, high=only.high, rank_error=only.rank_error
    )
    return answer if result.session is None else _with_session(answer, result.session)


def _column(result: Result, parts: tuple[int, ...]) -> AnswerColumn:
    """Return the values of one statistic with their intervals.

    Args:
        parts: the places of its draws.
    """
    values, intervals, places = _shown(result.checked, result)
    ends = [None if each is None else outward_decimals(each, places) for each in intervals]
    column, draw = result.checked.column, result.noisy[0].draw
    return AnswerColumn(
        values=values,
        parts=parts,
        low=_texts([each and each[0] for each in ends], places),
        high=_texts([each and each[1] for each in ends], places),
        lower=column.lower if isinstance(column, NumberColumn) else UNSET,
        upper=column.upper if isinstance(column, NumberColumn) else UNSET,
        rank_error=decimal_text(rank_error(draw, Decimal(CONFIDENCE)))
        if isinstance(draw.statistic, SelectionStatistic)
        else UNSET,
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
    quotients = [each for each in checked.alone if isinstance(each.statistic, EstimateQuestion)]
    is_stated = any(each.known_count is not None for each in quotients)
    return AnswerBounds(
        rows=checked.rows,
        rows_per_group=UNSET if checked.rows_per_group >= checked.rows else checked.rows_per_group,
        unit=UNSET if unit is UNSET else unit.column,
        lower=column.lower if isinstance(column, NumberColumn) else UNSET,
        upper=column.upper if isinstance(column, NumberColumn) else UNSET,
        size=checked.schema.size if is_stated else UNSET,
    )


def _shown(
    checked: CheckedQuestion, result: Result
) -> tuple[tuple[str | None, ...], Sequence[Interval | None], int]:
    """Return the values of the answer, their intervals, and how many digits both may have.

    A quotient without an estimate is None, and so is its interval. Source: the rule reads
    the noisy count and its declared noise alone, so it is post-processing of what is released.
    """
    question, parts = checked.statistic, result.noisy
    if parts[0].places:
        return _candidates(checked, parts[0]), [], 0
    if not isinstance(question, EstimateQuestion):
        confidence = confidence_of_each(Decimal(CONFIDENCE), _levels(result))
        places = _places(parts[0].draw)
        if result.session is not None:
            more = session_law(parts[0].draw).digits_of_a_level
            places += (len(result.session.shown) - 1) * more
        return _texts(parts[0].values, places), _intervals(parts[0], confidence), places
    known, columns = checked.known_count, [each.values for each in parts]
    if known is not None:
        columns, carries = [(Fraction(known),), *columns], [True]
    else:
        counts = _intervals(parts[0], confidence_of_each(Decimal(CONFIDENCE), len(parts)))
        carries = [carries_estimate(each) for each in counts]
    numbers = list(compress(zip(*columns, strict=True), carries))
    within = question.intervals(
        checked.numbers,
        numbers,
        confidence=Decimal(CONFIDENCE),
        noises=noises_of([each.draw for each in parts], known),
    )
    places = question.places(checked.numbers)
    unit = Fraction(1, 10**places)
    values = iter([round_half_up(question.value(checked.numbers, each), unit) for each in numbers])
    intervals = iter(within)
    return (
        _texts([next(values) if each else None for each in carries], places),
        [next(intervals) if each else None for each in carries],
        places,
    )


def _levels(result: Result) -> int:
    """Return at how many levels of a session an interval must hold for that of its answer."""
    session = result.session
    # Values decide where a relative error stops, and the interval must hold wherever that is.
    if session is None or session.stop.form != "relative_error":
        return 1
    return len(levels_of(session.draw))


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
    return len(str(draw.grid.denominator)) - 1  # the grid is a power of 1/10


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
        grid=decimal_text(draw.grid, _places(draw)) if noisy.values else "1",
        column=UNSET if column is None else column.name,
    )
