"""Sixty forged answers: none is what a run of its question can show, and its field is named."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, Final

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from accountant.answers import NoisyAnswer, decode_answer, encode_answer
from accountant.answers.answer import GroupColumn
from accountant.answers.rebuild import difference_from_run
from accountant.claims import Pure
from accountant.questions import levels_of
from tests.accountant.answers.runs import RUNS, SESSIONS, Asked, answer, ask, zeros
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import visits

Change = Callable[[NoisyAnswer], NoisyAnswer]
_VALUE: Final = 300
"""The exact statistic of each group: sessions stop at it after a few levels."""

ANSWERS: Final = {
    "count": ask("count", "epsilon: 0.5"),
    "counts": ask("count by region, smoker", "rho: 0.1"),
    "rounded": ask("sum(income)", "rho: 0.1, rounded_gaussian"),
    "mean": ask("mean(income)", "epsilon: 0.5"),
    "variance": ask("variance(age) by smoker", "rho: 0.1"),
    "median": ask("median(age)", "epsilon: 0.5"),
    "top": ask("top(region, 2)", "rho: 0.1"),
    "several": ask("count, mean(income), median(age) by region", "epsilon: 4, weights 1 2 1"),
    "laplace": ask("count", "epsilon: 2, laplace_reduction", "relative_error: 0.1"),
    "refined": ask("count", "rho: 0.5, gaussian_refinement", "relative_error: 0.1"),
    "absolute": ask("count", "rho: 0.5, gaussian_refinement", "error: 60 at 0.9"),
    "dates": ask("count by month(t)", "epsilon: 0.5", schema=visits(zone="Europe/Berlin")),
    "unstopped": ask("count", "epsilon: 2, laplace_reduction", "error: 1e-9"),
}


@cache
def stored(name: str) -> NoisyAnswer:
    question = ANSWERS[name]
    exact = [[Fraction(_VALUE)] * len(each) for each in zeros(question)]
    return decode_answer(encode_answer(answer(question, exact, bits_of(7))))


def fields(**fields: Any) -> Change:
    return lambda found: replace(found, **fields)


def noise(place: int, **fields: Any) -> Change:
    """Change the noise of one statistic."""

    def change(found: NoisyAnswer) -> NoisyAnswer:
        new = list(found.statistics)
        new[place] = replace(new[place], **fields)
        return replace(found, statistics=tuple(new))

    return change


def bounds(**fields: Any) -> Change:
    return lambda found: replace(found, bounds=replace(found.bounds, **fields))


def level(place: int, **fields: Any) -> Change:
    def change(found: NoisyAnswer) -> NoisyAnswer:
        new = list(found.levels)
        new[place] = replace(new[place], **fields)
        return replace(found, levels=tuple(new))

    return change


def show(levels: int) -> Change:
    """Let a session show so many levels, and end with the last one's values."""

    def change(found: NoisyAnswer) -> NoisyAnswer:
        kept = found.levels[:levels]
        return replace(found, levels=kept, values=kept[-1].values)

    return change


def one_more(found: NoisyAnswer) -> NoisyAnswer:
    """Let a session go on for a level after its rule had stopped it."""
    (draw,) = ANSWERS["laplace"].derivation.draws
    new = levels_of(draw)[len(found.levels)]
    more = replace(found.levels[-1], level=new.text)
    return replace(found, levels=(*found.levels, more))


def every(*changes: Change) -> Change:
    def change(found: NoisyAnswer) -> NoisyAnswer:
        for each in changes:
            found = each(found)
        return found

    return change


def column(place: int, **fields: Any) -> Change:
    """Change one of several columns."""

    def change(found: NoisyAnswer) -> NoisyAnswer:
        new = list(found.columns)
        new[place] = replace(new[place], **fields)
        return replace(found, columns=tuple(new))

    return change


SPRING: Final = GroupColumn(column="month(t)", values=("2026-03", "2026-04", "2026-05", "2026-06"))
FORGERIES: Final[list[tuple[str, str, Change]]] = [
    # The noise of one statistic.
    ("count", "statistics[0].scale", noise(0, scale="1/5")),
    ("several", "statistics[0].scale", noise(0, scale="1/5")),
    ("several", "statistics", lambda found: replace(found, statistics=found.statistics[:2])),
    ("several", "statistics[1].values", noise(1, values=("1", "2"))),
    ("several", "statistics[2].column", noise(2, column="income")),
    ("several", "columns[0].values[0]", column(0, values=("1", "300", "300"))),
    ("several", "columns[1].low[0]", column(1, low=("0", "0", "0"))),
    ("several", "values", column(2, values=("1", "2", "121"))),
    ("several", "columns[2].upper", column(2, upper="121")),
    ("several", "columns", lambda found: replace(found, columns=found.columns[:2])),
    ("several", "values", fields(values=("300",))),
    ("count", "statistics[0].law", noise(0, law="discrete_gaussian")),
    ("count", "statistics[0].statistic", noise(0, statistic="sum")),
    ("count", "statistics[0].variance", noise(0, variance="4")),
    ("count", "statistics[0].values", noise(0, values=("300",))),
    ("count", "statistics", fields(statistics=())),
    ("counts", "statistics[0].variance", noise(0, variance="1")),
    ("counts", "statistics[0].scale", noise(0, scale="1")),
    ("rounded", "statistics[0].variance", noise(0, variance="1")),
    ("mean", "statistics[0].scale", noise(0, scale="1/8")),
    ("mean", "statistics[1].scale", noise(1, scale="1/8")),
    ("mean", "statistics", lambda found: replace(found, statistics=found.statistics[:1])),
    ("variance", "statistics[2].variance", noise(2, variance="1")),
    ("median", "statistics[0].scale", noise(0, scale="1/8")),
    ("top", "statistics[0].scale", noise(0, scale="1/8")),
    # Cost and confidence.
    ("count", "cost", fields(cost={"epsilon": "0.1"})),
    ("count", "cost", fields(cost={"rho": "0.5"})),
    ("counts", "cost", fields(cost={"rho": "0.01"})),
    ("mean", "cost", fields(cost={"epsilon": "0.25"})),
    ("median", "cost", fields(cost={"epsilon": "0.05"})),
    ("laplace", "reserved_cost", fields(reserved_cost={"epsilon": "1"})),
    ("laplace", "fixed_cost", fields(fixed_cost={"epsilon": "90"})),
    ("laplace", "cost", fields(cost={"epsilon": "0.000001"})),
    ("refined", "fixed_cost", fields(fixed_cost={"rho": "90"})),
    ("count", "confidence", fields(confidence="0.99")),
    ("mean", "confidence", fields(confidence="0.999")),
    ("median", "confidence", fields(confidence="0.99")),
    ("median", "rank_error", fields(rank_error="0.5")),
    ("count", "rank_error", fields(rank_error="0.5")),
    # Bounds, groups, intervals.
    ("count", "bounds.rows", bounds(rows=77)),
    ("mean", "bounds.lower", bounds(lower="-5")),
    ("mean", "bounds.upper", bounds(upper="1")),
    ("median", "bounds.upper", bounds(upper="1000")),
    ("count", "bounds.unit", bounds(unit="household")),
    ("counts", "groups[0].column", lambda found: replace(found, groups=found.groups[::-1])),
    ("count", "low[0]", fields(low=("299",))),
    ("count", "high[0]", fields(high=("301",))),
    ("counts", "low[3]", lambda found: replace(found, low=(*found.low[:3], "0", *found.low[4:]))),
    ("count", "low", fields(low=(), high=())),
    ("mean", "high[0]", fields(high=("99999",))),
    ("variance", "low[1]", lambda found: replace(found, low=(found.low[0], "-1"))),
    # Values: off their grid, of another form, or not those of their parts.
    ("count", "values", fields(values=("300.5",))),
    ("count", "values", fields(values=("3e2",))),
    ("count", "values[0]", fields(values=("0300",))),
    ("count", "values", fields(values=("1/2",))),
    ("count", "low[0]", fields(values=("5",))),
    ("rounded", "values", fields(values=("0.00000001",))),
    ("mean", "values[0]", fields(values=("14737",))),
    ("mean", "values[0]", noise(0, values=("10",))),
    ("mean", "statistics[0].values", noise(0, values=("10", "20"))),
    ("mean", "statistics[0].values", noise(0, values=("10.5",))),
    ("variance", "values[1]", lambda found: replace(found, values=(found.values[0], "4"))),
    ("median", "values", fields(values=("7.00000001",))),
    ("median", "values", fields(values=("100000",))),
    ("top", "values", fields(values=("nowhere", "north"))),
    ("top", "values", lambda found: replace(found, values=(found.values[0],) * 2)),
    # Sessions: their levels, and where their own rule stops them.
    ("laplace", "stopped", fields(stopped=False)),
    ("laplace", "levels", one_more),
    ("refined", "levels", every(show(1), fields(stopped=True))),
    ("laplace", "levels[0].level", level(0, level="1")),
    ("laplace", "values[0]", fields(values=("1",))),
    ("refined", "levels[1].values", level(1, values=("299.25",))),
    ("absolute", "levels", every(show(2), fields(stopped=True))),
    ("unstopped", "stopped", fields(stopped=True)),
    ("unstopped", "levels", show(3)),
    # The rules of a zone, where one decides.
    ("dates", "zone_rules", fields(zone_rules=UNSET)),
    ("dates", "groups[0].values[0]", lambda found: replace(found, groups=(SPRING,))),
    ("count", "zone_rules", fields(zone_rules="tzdata 2026.6")),
    # The grant itself.
    ("count", "claim", fields(claim=Pure(epsilon="1"))),
    ("count", "reason", fields(reason="because")),
]


def difference(name: str, found: NoisyAnswer) -> str | None:
    question: Asked = ANSWERS[name]
    wrong = difference_from_run(question.granted, question.checked.schema, found)
    if wrong is None:
        return None
    assert wrong.expected != wrong.found
    return wrong.what


def test_each_forged_answer_is_named_by_its_field() -> None:
    assert len(FORGERIES) >= 60
    found = [difference(name, change(stored(name))) for name, _, change in FORGERIES]
    wrong = [
        f"{name}: {what} was named {named}"
        for (name, what, _), named in zip(FORGERIES, found, strict=True)
        if named != what
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_before_it_was_forged_agrees(name: str) -> None:
    assert difference(name, stored(name)) is None


def test_every_kind_of_answer_agrees_with_its_own_run() -> None:
    for text, wanted in RUNS:
        question = ask(text, wanted)
        found = answer(question, zeros(question), bits_of(3))
        wrong = difference_from_run(question.granted, question.checked.schema, found)
        assert wrong is None, (text, wanted)
    for text, wanted, stop in SESSIONS:
        question = ask(text, wanted, stop)
        for seed, value in enumerate((0, 100, 5000)):
            exact = [[Fraction(value)] * len(each) for each in zeros(question)]
            found = answer(question, exact, bits_of(seed))
            wrong = difference_from_run(question.granted, question.checked.schema, found)
            assert wrong is None, (text, wanted, stop)


def test_a_huge_number_is_refused_and_not_computed() -> None:
    assert difference("count", replace(stored("count"), values=("9" * 100_000,))) == "values"
