"""At most so many rows of a unit in each group: what enters, and what a unit changes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from accountant.questions import (
    SelectionStatistic,
    check_question,
    evaluate,
    parse_question,
    question_text,
    statistics_of,
)
from accountant.questions.schema import UnitColumn
from accountant.questions.sensitivity import VectorStatistic, sum_over_rows
from tests.accountant.questions.schemas import CENSUS, Cells, of_unit, replaced, small_schema
from tests.accountant.questions.test_neighbouring_tables import RELATIONS, largest_changes
from tests.every_case import check_each, check_rows

# An extreme in each of the four groups, so that a unit's change can be the largest.
POOL: list[Cells] = [
    {"x": x, "c": c, "t": t} for x, c, t in product((-9, 9), ("a", "b"), (True, False))
]


def _of_one_unit(cells: int, k: int, m: int, low: int, high: int) -> np.ndarray:
    """Return what k rows can add to the groups, m of them to one, all of a group at one bound.

    Others are between these, and a norm of a difference is the largest at the ends.
    """
    each = [(n, n * value) for n in sorted({0, k % m, m}) for value in (low, high)]
    vectors = {
        tuple(value for _, value in chosen)
        for chosen in product(each, repeat=cells)
        if sum(n for n, _ in chosen) <= k
    }
    return np.array(sorted(vectors))


def _largest(found: np.ndarray, relation: Neighbours) -> tuple[int, int]:
    changes = (
        found if relation == "add_remove" else (found[:, None] - found).reshape(-1, found.shape[1])
    )
    return int(np.abs(changes).sum(axis=1).max()), int((changes**2).sum(axis=1).max())


BOUNDS = [(1, 1), (0, 5), (-5, 5), (-5, 2), (-2, 5), (-1, 4), (2, 3), (-5, -1)]


def test_no_unit_adds_more_than_the_sensitivity_and_one_adds_as_much() -> None:
    def check_case(k: int, m: int, cells: int) -> None:
        checked = parse_question("count by c, t", small_schema(rows=9))
        groups = checked.groups if cells > 1 else ()
        for (low, high), relation in product(BOUNDS, RELATIONS):
            scope = replace(
                checked,
                schema=small_schema(rows=9, neighbours=relation),
                groups=groups,
                rows=min(k, m * cells),
                rows_per_group=m,
            )
            stated = sum_over_rows(
                "sum", scope, grid=Fraction(1), lower=Fraction(low), upper=Fraction(high)
            )
            l1, l2_squared = _largest(_of_one_unit(cells, k, m, low, high), relation)
            assert l1 <= stated.l1
            assert l2_squared <= stated.l2_squared
            # Where the groups have room for the rows of both tables, nothing is paid in vain.
            if relation == "add_remove" or cells >= 2 * -(-k // m) or cells == 1:
                assert (l1, l2_squared) == (stated.l1, stated.l2_squared)

    bounds = [(k, m) for k in range(1, 6) for m in range(1, 5) if m <= k]
    check_rows(check_case, ((k, m, cells) for k, m in bounds for cells in (1, 4)))


TEXTS = ["count by c, t", "sum(x) by c, t", "mean(x) by c, t"]


def test_no_table_changes_by_more() -> None:
    def check_case(text: str, relation: Neighbours) -> None:
        schema = small_schema(rows=2, neighbours=relation)
        checked = parse_question(f"{text} rows_per_group 1", schema)
        statistics = statistics_of(checked)
        assert isinstance(statistics, tuple)
        for statistic, change in zip(statistics, largest_changes(checked, 2, POOL), strict=True):
            assert (change.l1, change.l2_squared) == (statistic.l1, statistic.l2_squared)

    check_each(check_case, TEXTS, RELATIONS)


def _deviation(text: str) -> float:
    """Return how much noise a question gets, in parts of that of one row of a unit."""
    schema = replaced(CENSUS, unit=UnitColumn(column="person", rows=10))
    (statistic,) = statistics_of(parse_question(text, schema))  # type: ignore[misc]
    assert isinstance(statistic, VectorStatistic)
    return float(statistic.l2_squared) ** 0.5


def test_ten_rows_in_ten_groups_cost_a_third_of_ten_in_one() -> None:
    by = "count by region, job, smoker"  # twelve groups
    assert _deviation(by) == 10
    assert _deviation(f"{by} rows_per_group 1") == pytest.approx(10**0.5)
    assert _deviation(f"{by} rows_per_group 3") == pytest.approx(28**0.5)  # 9 + 9 + 9 + 1
    # No more than three rows fit into three groups.
    assert _deviation("count by region rows_per_group 1") == pytest.approx(3**0.5)
    assert _deviation("count rows_per_group 2") == 2


def test_choices_count_no_more_rows_than_fit() -> None:
    def distance(text: str) -> Fraction:
        found = statistics_of(parse_question(text, small_schema(rows=10)))
        assert isinstance(found, SelectionStatistic)
        return found.range_distance

    assert distance("median(x) by c rows_per_group 1") == distance("median(x) by c rows 2")
    assert distance("top(c, 1) rows_per_group 3") == distance("top(c, 1) rows 3")


def test_rows_of_least_hash_enter_while_their_group_has_room() -> None:
    """Which rows enter does not depend on their order, and the first of a group always may."""
    schema = small_schema(rows=3)
    rows = of_unit("u", tuple({"x": x, "c": c} for x in (-1, 0, 1, 2) for c in "ab"))
    for per_group, most in ((1, 1), (2, 2), (3, 3)):
        checked = parse_question(f"count by c rows_per_group {per_group}", schema)
        (found,) = evaluate(checked, rows, key=b"key")
        assert (found,) == evaluate(checked, rows[::-1], key=b"key")
        assert sum(found) == min(3, 2 * per_group)
        assert max(found) <= most


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("count by c rows_per_group 0", "rows_per_group"),
        ("count by c rows_per_group 3", "rows_per_group"),
        ("count by c rows 1 rows_per_group 2", "rows_per_group"),
        ("count by c rows_per_group 1.5", "question"),
    ],
)
def test_what_no_unit_may_have_is_refused(text: str, field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        parse_question(text, small_schema(rows=2))
    assert caught.value.field == field


def test_the_clause_is_a_part_of_the_text_and_of_several() -> None:
    schema = small_schema(rows=3)
    text = "count, sum(x), mean(x) by c rows 2 rows_per_group 1"
    checked = parse_question(text, schema)
    assert question_text(checked.question) == text
    assert [each.rows_per_group for each in checked.alone] == [1, 1, 1]
    assert check_question(checked.question, schema) == checked
