"""Derived sensitivities and claims, against every small pair of neighbouring tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from accountant.claims import BoundedRange, Gaussian, Pure, Repeat, Zcdp
from accountant.policy import Neighbours
from accountant.questions import (
    CheckedQuestion,
    SelectionStatistic,
    VectorStatistic,
    derive,
    evaluate,
    parse_noise,
    parse_question,
    statistics_of,
)
from accountant.questions.parts import ExactPart, Groups, Vector, middle_of
from accountant.questions.schema import UnitColumn
from accountant.questions.scope import Scope
from accountant.questions.statistics import (
    Question,
    Statistic,
    StatisticQuestion,
    VarianceQuestion,
)
from tests.accountant.questions.schemas import (
    Cells,
    Table,
    multisets,
    of_unit,
    replaced,
    small_schema,
    visits,
)
from tests.every_case import check_each

# Beyond both bounds, within them, and cells that the schema reads as missing.
POOL: list[Cells] = [
    {"x": -9, "c": "a"},
    {"x": 9.5, "c": "a"},
    {"x": "7e400", "c": "b"},
    {"x": "-6", "c": "b"},
    {"x": 0, "c": "b", "t": True},
    {"x": math.nan, "c": "z"},
]
OTHERS = [(), *(of_unit("v", table) for table in [tuple(POOL), (POOL[0],) * 3, (POOL[4], POOL[1])])]
BOUNDS = [("-2", "3"), ("1", "4"), ("-5", "-1")]
VECTORS = [
    *("count", "count where x > 0", "count by c", "histogram(c)", "sum(x)", "sum(x) by c"),
    *("sum(x) where c = 'b' or not t = true", "mean(x)", "std(x)", "variance(x) by c"),
    *("mean(x) by c, t", "count where x is missing rows 1", "sum(x) by t rows 1"),
]
SELECTIONS = [
    "median(x)",
    "quantile(x, 0.1)",
    "quantile(x, 0.9) by c",
    "median(clamp(x, -1, 2))",
    "quantile(x, 0.3) by band(x, 0, 2)",
    "top(c, 1)",
    "top(c, 2) by t",
]


@dataclass(frozen=True)
class Change:
    """The largest changes between neighbours of one statistic."""

    l1: Fraction
    l2_squared: Fraction
    range_distance: Fraction


def pool_of(checked: CheckedQuestion) -> list[Cells]:
    """Return the cells of a unit. The square about the middle is least at the middle itself."""
    if not isinstance(checked.question, VarianceQuestion):
        return POOL
    return [*POOL, *({"x": float(middle_of(checked.numbers)), "c": each} for each in "ab")]


def evaluations(
    checked: CheckedQuestion, rows: int, pool: list[Cells] | None = None
) -> Iterator[tuple[tuple[Vector, ...], ...]]:
    """Yield the statistics of pairs of neighbours."""
    own = [of_unit("u", table) for table in multisets(pool or pool_of(checked), rows + 1)]
    others_of_pool = OTHERS if pool is None else [(), of_unit("v", tuple(pool))]
    for others in others_of_pool:
        found = [evaluate(checked, others + table, key=b"key") for table in own]
        if checked.schema.neighbours == "add_remove":
            empty = evaluate(checked, others, key=b"key")
            yield from ((empty, each) for each in found)
        else:
            yield from combinations(set(found), 2)


def change_between(
    one: Vector, other: Vector, statistic: VectorStatistic | SelectionStatistic
) -> Change:
    moved = [b - a for a, b in zip(one, other, strict=True)]
    distance = Fraction(0)
    if isinstance(statistic, SelectionStatistic):
        n = statistic.candidates
        groups = [moved[i : i + n] for i in range(0, len(moved), n)]
        distance = sum((max(group) - min(group) for group in groups), Fraction(0))
    return Change(
        l1=sum(map(abs, moved), Fraction(0)),
        l2_squared=sum((each**2 for each in moved), Fraction(0)),
        range_distance=distance,
    )


def largest_changes(
    checked: CheckedQuestion, rows: int, pool: list[Cells] | None = None
) -> list[Change]:
    """Return the largest changes of each statistic that a question reads."""
    statistics = statistics_of(checked)
    parts = (statistics,) if isinstance(statistics, SelectionStatistic) else statistics
    largest = [Change(Fraction(0), Fraction(0), Fraction(0))] * len(parts)
    for one, other in set(evaluations(checked, rows, pool)):
        for i, part in enumerate(parts):
            change = change_between(one[i], other[i], part)
            largest[i] = Change(
                *(max(getattr(largest[i], f), getattr(change, f)) for f in Change.__annotations__)
            )
    return largest


def test_each_kind_of_question_is_compared_with_tables() -> None:
    texts = (*VECTORS, *SELECTIONS)
    asked = {type(parse_question(text, small_schema()).question) for text in texts}
    assert asked == set(get_args(Statistic))  # several: test_several.py


class Unstated(StatisticQuestion, frozen=True, tag="unstated"):
    """A statistic of which nobody has said what it is computed from."""

    label = "Unstated"


class UnstatedPart(ExactPart):
    """An exact statistic of which nobody has said what a unit changes in it."""

    def exact(self, scope: Scope, groups: Groups) -> Vector:
        return ()


def test_a_statistic_without_a_sensitivity_gets_no_noise() -> None:
    count = parse_question("count", small_schema())
    checked = replace(count, question=cast("Question", Unstated()))
    with pytest.raises(TypeError, match="no sensitivity of Unstated"):
        derive(checked, parse_noise("epsilon: 1"))
    with pytest.raises(TypeError, match="sensitivity"):
        UnstatedPart()  # type: ignore[abstract]


RELATIONS: list[Neighbours] = ["add_remove", "replace"]


def test_no_unit_changes_a_vector_by_more_and_one_changes_it_by_as_much() -> None:
    def check_case(text: str, relation: Neighbours, rows: int) -> None:
        for lower, upper in BOUNDS:
            schema = small_schema(lower=lower, upper=upper, rows=rows, neighbours=relation)
            checked = parse_question(text, schema)
            statistics = statistics_of(checked)
            assert isinstance(statistics, tuple)
            for statistic, change in zip(statistics, largest_changes(checked, rows), strict=True):
                assert change.l1 <= statistic.l1
                assert change.l2_squared <= statistic.l2_squared
                if "where" not in text and "t" not in text.partition(" by ")[2]:
                    assert change.l1 == statistic.l1, "it charges more than any table needs"
                    assert change.l2_squared == statistic.l2_squared

    check_each(check_case, VECTORS, RELATIONS, [1, 2])


NARROW = [
    *("sum(clamp(x, -1, 2))", "sum(clamp(x, -2, 1)) by c", "mean(clamp(x, 0, 2))"),
    *("variance(clamp(x, -1, 1)) by c", "count by band(x, -1, 2)", "histogram(x, width 2)"),
    "histogram(clamp(x, 0, 2), width 1)",
]


def test_no_unit_changes_clamped_numbers_by_more_and_one_changes_them_by_as_much() -> None:
    def check_case(text: str, relation: Neighbours, rows: int) -> None:
        checked = parse_question(text, small_schema(rows=rows, neighbours=relation))
        statistics = statistics_of(checked)
        assert isinstance(statistics, tuple)
        for statistic, change in zip(statistics, largest_changes(checked, rows), strict=True):
            assert change.l1 == statistic.l1
            assert change.l2_squared == statistic.l2_squared

    check_each(check_case, NARROW, RELATIONS, [1, 2])


DATED: list[Cells] = [
    {"d": "2025-11-01", "t": "2025-12-31T23:59:60", "x": 9},
    {"d": date(2026, 2, 28), "t": "2026-01-01T00:30+02:00", "x": -9},
    {"d": "2026-02-28T23:59:59.9", "t": "2026-01-01T05:00", "x": 9},
    {"d": "2026-02-28", "t": "2026-01-31", "x": -9},
    {"d": "2026-03-01", "t": None, "x": 9},
]
BY_DATE = [
    *("count by month(d)", "sum(x) by quarter(t)", "count where d > '2025-11-01' by weekday(d)"),
    *("sum(x) by week(d)", "count by hour(t), year(d)", "sum(x) where t <= '2025-12-31'"),
]


def test_no_unit_changes_groups_of_dates_by_more() -> None:
    def check_case(text: str, relation: Neighbours, rows: int) -> None:
        schema = visits(unit=UnitColumn(column="unit", rows=rows), neighbours=relation)
        checked = parse_question(text, schema)
        (statistic,) = statistics_of(checked)  # type: ignore[misc]
        (change,) = largest_changes(checked, rows, DATED)
        assert change.l1 <= statistic.l1
        assert change.l2_squared <= statistic.l2_squared
        if "where" not in text:
            assert change.l1 == statistic.l1, "it charges more than any table needs"

    check_each(check_case, BY_DATE, RELATIONS, [1, 2])


def test_no_unit_changes_scores_by_more() -> None:
    def check_case(text: str, relation: Neighbours, rows: int) -> None:
        schema = small_schema(rows=rows, neighbours=relation)
        checked = parse_question(text, schema)
        statistic = statistics_of(checked)
        assert isinstance(statistic, SelectionStatistic)
        (change,) = largest_changes(checked, rows)
        assert change.range_distance <= statistic.range_distance
        assert change.range_distance >= statistic.range_distance / 2
        if text.startswith("top(c, 1)"):
            assert change.range_distance == statistic.range_distance

    check_each(check_case, SELECTIONS, RELATIONS, [1, 2])


def test_where_no_column_names_units_each_row_is_one() -> None:
    def check_case(text: str, relation: Neighbours) -> None:
        schema = replaced(small_schema(neighbours=relation), unit=UNSET)
        checked = parse_question(text, schema)
        statistics = statistics_of(checked)
        assert isinstance(statistics, tuple)
        one_row = small_schema(rows=1, neighbours=relation)
        assert statistics == statistics_of(parse_question(text, one_row))
        befores: list[Table] = [()] if relation == "add_remove" else [(cells,) for cells in POOL]
        for others, before, after in product(OTHERS, befores, POOL):
            found = zip(
                statistics,
                evaluate(checked, (*others, *before), key=b""),
                evaluate(checked, (*others, after), key=b""),
                strict=True,
            )
            for statistic, one, other in found:
                change = change_between(one, other, statistic)
                assert change.l1 <= statistic.l1
                assert change.l2_squared <= statistic.l2_squared

    check_each(check_case, ["count by c", "sum(x)", "sum(x) by c", "variance(x)"], RELATIONS)


def test_the_claim_is_never_below_the_loss() -> None:
    def check_case(text: str, relation: Neighbours, noise: str) -> None:
        checked = parse_question(text, small_schema(neighbours=relation))
        (draw,) = derive(checked, parse_noise(noise)).draws
        (change,) = largest_changes(checked, 2)
        match draw.claim:
            case Pure(epsilon):
                assert draw.scale is not None
                assert change.l1 / draw.scale <= Fraction(epsilon)
            case Zcdp(rho):
                assert draw.variance is not None
                assert change.l2_squared / (2 * draw.variance) <= Fraction(rho)
            case Gaussian(sigma, sensitivity):
                assert draw.variance == Fraction(sigma) ** 2
                assert change.l2_squared <= Fraction(sensitivity) ** 2
            case other:
                pytest.fail(f"no claim of numbers: {other}")

    check_each(
        check_case,
        ["count by c", "sum(x)", "sum(x) by c"],
        RELATIONS,
        ["epsilon: 0.7", "rho: 0.03", "sigma: 4", "rho: 0.3, rounded_gaussian"],
    )


def chosen(scores: Vector, scale: float, times: int) -> dict[tuple[int, ...], float]:
    """Return the probability of each outcome of exponential mechanisms, one after another."""
    result = {}
    for order in permutations(range(len(scores)), times):
        probability, left = 1.0, set(range(len(scores)))
        for choice in order:
            weights = {i: math.exp(float(scores[i]) / scale) for i in left}
            probability *= weights[choice] / sum(weights.values())
            left.remove(choice)
        result[order] = probability
    return result


def test_the_claim_of_a_choice_is_never_below_its_range() -> None:
    def check_case(text: str, relation: Neighbours) -> None:
        checked = parse_question(text, small_schema(neighbours=relation))
        derivation = derive(checked, parse_noise("epsilon: 1.5"))
        (draw,) = derivation.draws
        statistic = draw.statistic
        assert isinstance(statistic, SelectionStatistic)
        assert isinstance(draw.claim, BoundedRange)
        assert draw.scale is not None
        eta = float(draw.claim.eta)
        total = eta * statistic.times
        assert math.isclose(total, 1.5)
        if statistic.times > 1:
            assert derivation.claim == Repeat(draw.claim, statistic.times)
        for (one,), (other,) in set(evaluations(checked, 2)):
            p = chosen(one, float(draw.scale), statistic.times)
            q = chosen(other, float(draw.scale), statistic.times)
            losses = [math.log(p[outcome] / q[outcome]) for outcome in p]
            assert max(map(abs, losses)) <= total + 1e-9
            assert max(losses) - min(losses) <= total + 1e-9

    check_each(check_case, ["median(x)", "quantile(x, 0.1)", "top(c, 1)", "top(c, 2)"], RELATIONS)


# Whatever a source may hold.
CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.decimals(),
    st.sampled_from(["a", "b", "1e400", "-3.5", "true", "\ud800", "", "a'b"]),
    st.text("0a'.-e ", max_size=5),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
)
ROWS = st.fixed_dictionaries({"x": CELLS, "c": CELLS, "t": CELLS})
TEXTS = st.sampled_from([*VECTORS, *SELECTIONS])


@given(
    st.lists(ROWS, max_size=4),
    st.lists(ROWS, max_size=4),
    st.lists(ROWS, max_size=4),
    TEXTS,
    st.sampled_from(RELATIONS),
    st.binary(max_size=4),
)
def test_no_cell_whatever_it_holds_changes_more(
    others: list[Cells],
    one: list[Cells],
    other: list[Cells],
    text: str,
    relation: Neighbours,
    key: bytes,
) -> None:
    checked = parse_question(text, small_schema(neighbours=relation))
    one = [] if relation == "add_remove" else one
    kept = of_unit(7, tuple(others))
    before = evaluate(checked, kept + of_unit("u", tuple(one)), key=key)
    after = evaluate(checked, of_unit("u", tuple(other)) + kept, key=key)
    statistics = statistics_of(checked)
    parts = (statistics,) if isinstance(statistics, SelectionStatistic) else statistics
    for part, a, b in zip(parts, before, after, strict=True):
        change = change_between(a, b, part)
        if isinstance(part, SelectionStatistic):
            assert change.range_distance <= part.range_distance
        else:
            assert change.l1 <= part.l1
            assert change.l2_squared <= part.l2_squared
            assert all(value % part.grid == 0 for value in b)
