"""Run the half of an answer again that needs no data, and compare.

Schema, question and noise say which noise was drawn, and all else in an answer follows from the
noisy numbers that it shows. So the answer is made again from these, by the code that made it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NoReturn

import msgspec
from msgspec import UNSET

from accountant.answers.answer import NoisyAnswer
from accountant.answers.build import Granted, answer_of
from accountant.answers.compare import AnswerDifference, difference_from_grant
from accountant.answers.run import Noisy, Result, show_levels
from accountant.errors import RequestInvalid
from accountant.questions import (
    CheckedQuestion,
    Derivation,
    Draw,
    Level,
    Schema,
    Stop,
    as_claimed,
    check_question,
    derive,
    session_law,
)
from accountant.questions.plan import plan_of, shows_its_draw
from accountant.questions.schema import CategoryColumn, NumberColumn
from accountant.questions.sensitivity import SelectionStatistic, VectorStatistic
from accountant.replay.plain_text import plain

_NUMBER: Final = re.compile(r"-?[0-9]{1,1000}(\.[0-9]{1,1000})?")
_ORDER: Final = (
    *("version", "dataset", "request_id", "analyst", "grant", "question", "noise", "stop", "claim"),
    *("outcome", "reason", "bounds", "groups", "statistics", "levels", "stopped"),
    *("values", "columns"),
    *("confidence", "low", "high", "rank_error"),
    *("cost", "reserved_cost", "fixed_cost", "zone_rules"),
)
"""Of an answer's fields: a cause before its consequences."""


class _Differs(Exception):
    def __init__(self, difference: AnswerDifference) -> None:
        super().__init__(difference.what)
        self.difference = difference


def difference_from_run(
    granted: Granted, schema: Schema, answer: NoisyAnswer
) -> AnswerDifference | None:
    """Return the first field that no run of a granted question can show, None without any.

    The noisy numbers themselves may be any that the noise can draw. What depends on the data is
    not compared: an answer may still be another draw.

    Args:
        schema: of the dataset.
    """
    found = difference_from_grant(granted, answer)
    if found is not None or answer.outcome == "failed":
        return found
    try:
        due = _answer_again(granted, schema, answer)
    except _Differs as error:
        return error.difference
    for field in _ORDER:
        found = _first_difference(field, getattr(due, field), getattr(answer, field))
        if found is not None:
            return found
    return None


def _answer_again(granted: Granted, schema: Schema, answer: NoisyAnswer) -> NoisyAnswer:
    """Return the answer that shows the same noisy numbers. Raises: _Differs: no run shows them."""
    try:
        checked = check_question(granted.question, schema)
        derivation = derive(checked, as_claimed(granted.noise, granted.claim))
    except RequestInvalid as error:
        _differ("question", "a question that the schema allows", str(error))
    if derivation.claim != granted.claim:
        _differ("claim", plain(derivation.claim), plain(granted.claim))
    draw = derivation.draws[0]
    if (draw.first is None) is not (granted.stop is None):
        _differ("stop", "a rule for a session, and for nothing else", plain(granted.stop))
    if granted.stop is None:
        result = Result(checked=checked, noisy=_noisy(checked, derivation, answer))
    else:
        result = _session(checked, draw, granted.stop, answer)
    if checked.reads_zone and answer.zone_rules is UNSET:
        _differ("zone_rules", "the version of the rules of the schema's zone", "nothing")
    # Which version the machine had is no other field's consequence.
    return answer_of(granted, result, zone_rules=answer.zone_rules)


def _noisy(
    checked: CheckedQuestion, derivation: Derivation, answer: NoisyAnswer
) -> tuple[Noisy, ...]:
    """Return what each draw has shown."""
    draws, columns = derivation.draws, [answer.values]
    if checked.each:
        columns = [each.values for each in answer.columns]
        if len(columns) != len(checked.each):
            _differ("columns", f"{len(checked.each)} of them", str(len(columns)))
    if len(answer.statistics) != len(draws):
        _differ("statistics", f"{len(draws)} of them", str(len(answer.statistics)))
    noisy = list[Noisy]()
    for i, (draw, part) in enumerate(zip(draws, plan_of(checked).parts, strict=True)):
        if isinstance(draw.statistic, SelectionStatistic):
            texts = _values_of(columns[part.owner])
            noisy.append(Noisy(draw=draw, places=_places(part.scope, draw.statistic, texts)))
            continue
        what, shown = f"statistics[{i}].values", answer.statistics[i].values
        if shows_its_draw(checked):
            what, shown = "values", _values_of(answer.values)
        noisy.append(Noisy(draw=draw, values=_on_grid(what, draw, shown)))
    return tuple(noisy)


def _session(checked: CheckedQuestion, draw: Draw, stop: Stop, answer: NoisyAnswer) -> Result:
    """Return a session that shows the same values, and ends by its rule alone."""
    before: list[tuple[Fraction, tuple[Fraction, ...]]] = []
    law = session_law(draw)

    def values_at(level: Level) -> tuple[Fraction, ...]:
        place = len(before)
        if place == len(answer.levels):
            _differ("levels", f"level {level.text}: its rule was not reached", "no such level")
        found, what = answer.levels[place], f"levels[{place}]"
        if found.level != level.text:
            _differ(f"{what}.level", level.text, found.level)
        values = _numbers(f"{what}.values", draw, found.values)
        for i, value in enumerate(values):
            earlier = (before[-1][0], before[-1][1][i]) if before else None
            drawn = law.on_grid(level.noise, value, earlier)
            _check_on_grid(f"{what}.values", draw, drawn, found.values[i])
        before.append((level.noise, values))
        return values

    return show_levels(checked, draw, stop, values_at)


def _values_of(shown: Sequence[str | None]) -> tuple[str, ...]:
    """Return values that are what was drawn: none lacks an estimate."""
    values = tuple([each for each in shown if each is not None])
    if len(values) < len(shown):
        _differ("values", "a noisy value for each group", "no estimate")
    return values


def _on_grid(what: str, draw: Draw, texts: Sequence[str]) -> tuple[Fraction, ...]:
    """Return the noisy numbers of a draw, one for each group."""
    numbers = _numbers(what, draw, texts)
    for number, text in zip(numbers, texts, strict=True):
        _check_on_grid(what, draw, number, text)
    return numbers


def _numbers(what: str, draw: Draw, texts: Sequence[str]) -> tuple[Fraction, ...]:
    assert isinstance(draw.statistic, VectorStatistic), "a choice has no numbers"
    if len(texts) != draw.statistic.cells:
        _differ(what, f"{draw.statistic.cells} numbers", str(len(texts)))
    return tuple([_number(what, text) for text in texts])


def _number(what: str, text: str) -> Fraction:
    if _NUMBER.fullmatch(text) is None:
        _differ(what, "a decimal", text)
    return Fraction(text)


def _check_on_grid(what: str, draw: Draw, number: Fraction, text: str) -> None:
    assert isinstance(draw.statistic, VectorStatistic), "a choice has no grid"
    grid = draw.statistic.grid
    if (number / grid).denominator != 1:
        _differ(what, f"noise on multiples of {grid}", text)


def _places(
    checked: CheckedQuestion, statistic: SelectionStatistic, texts: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Return the places of the candidates chosen in each group."""
    each = statistic.times
    if len(texts) != statistic.groups * each:
        _differ("values", f"{statistic.groups * each} choices", str(len(texts)))
    places = [_place(checked, statistic, text) for text in texts]
    groups = [tuple(places[i : i + each]) for i in range(0, len(places), each)]
    for group in groups:
        if len({*group}) < each:
            _differ("values", "no candidate twice", plain(texts))
    return tuple(groups)


def _place(checked: CheckedQuestion, statistic: SelectionStatistic, text: str) -> int:
    column = checked.column
    if isinstance(column, CategoryColumn):
        place = column.categories.index(text) if text in column.categories else -1
    else:
        assert isinstance(column, NumberColumn), "candidates are numbers or categories"
        steps = (_number("values", text) - column.bounds[0]) / column.step_size
        place = steps.numerator if steps.denominator == 1 else -1
    if not 0 <= place < statistic.candidates:
        _differ("values", "a declared candidate", text)
    return place


def _first_difference(what: str, due: object, found: object) -> AnswerDifference | None:
    """Return the innermost field in which two values differ."""
    if due == found:
        return None
    if isinstance(due, tuple) and isinstance(found, tuple) and len(due) == len(found):
        pairs = enumerate(zip(due, found, strict=True))
        inner = [(f"{what}[{i}]", *pair) for i, pair in pairs]
    elif isinstance(due, msgspec.Struct) and type(due) is type(found):
        names = due.__struct_fields__
        inner = [(f"{what}.{name}", getattr(due, name), getattr(found, name)) for name in names]
    else:
        return AnswerDifference(what, plain(due), plain(found))
    differences = (_first_difference(*each) for each in inner)
    return next((each for each in differences if each is not None), None)


def _differ(what: str, expected: str, found: str) -> NoReturn:
    raise _Differs(AnswerDifference(what, expected, found))
