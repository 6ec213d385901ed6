"""The reference evaluation: exact values, contributions, and no error whatever the rows hold."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from accountant.questions import evaluate, mean_value, parse_question, variance_value
from accountant.questions.schema import NumberColumn
from accountant.questions.statistics import StdQuestion
from tests.accountant.questions.schemas import CENSUS, Cells, of_unit, small_schema
from tests.every_case import check_rows

ROWS: list[Cells] = [
    {"person": "ana", "age": 70, "income": 10.125, "region": "north", "smoker": True},
    {"person": "ana", "age": 999, "income": None, "region": "south"},
    {"person": 5, "age": "20", "income": "1e400", "region": "north", "job": "yes", "smoker": 0},
    {"person": 5.0, "age": None, "income": "?", "region": "nowhere"},
    {"person": None, "age": 30, "income": 1, "region": "north"},
    {"age": 30, "income": 1, "region": "north"},
]


def test_the_schemas_values_are_counted_and_added() -> None:
    def check_case(text: str, statistics: list[list[object]]) -> None:
        found = evaluate(parse_question(text, CENSUS), ROWS, key=b"key")
        assert [list(each) for each in found] == [
            [Fraction(str(value)) for value in each] for each in statistics
        ]

    check_rows(
        check_case,
        [
            ("count", [[4]]),
            ("count where age > 65", [[2]]),
            ("count where age is missing", [[1]]),
            ("count by region", [[2, 1, 0]]),
            ("histogram(region)", [[2, 1, 0]]),
            ("histogram(job)", [[1, 3]]),
            ("count by smoker", [[1, 1]]),
            ("histogram(region) by smoker", [[1, 1, 0, 0, 0, 0]]),
            ("sum(age)", [[210]]),
            ("sum(income)", [["250010.63"]]),
            ("mean(age) by region", [[2, 1, 0], [-30, 60, 0]]),
            ("variance(age) where region = 'north'", [[2], [-30], [-1900]]),
            ("top(region, 2)", [[2, 1, 0]]),
            ("top(region, 1) by job", [[1, 0, 0, 1, 1, 0]]),
            ("count where region != 'north'", [[1]]),
            ("count where not region = 'north'", [[2]]),
        ],
    )


def test_scores_are_greatest_at_the_quantile() -> None:
    schema = small_schema(lower="0", upper="4", rows=9)
    table = of_unit("u", tuple({"x": value} for value in (0, 1, 1, 2, 4)))
    (scores,) = evaluate(parse_question("median(x)", schema), table, key=b"")
    assert scores == tuple(map(Fraction, ("-2", "-0.5", "-1", "-1.5", "-2")))
    (scores,) = evaluate(parse_question("quantile(x, 0)", schema), table, key=b"")
    assert scores.index(max(scores)) == 0
    (scores,) = evaluate(parse_question("quantile(x, 1)", schema), table, key=b"")
    assert scores.index(max(scores)) == 4


CELL = st.sampled_from([-3, 0, 1, 2, None, "a", "b"])
TABLE = st.lists(
    st.fixed_dictionaries({"unit": st.sampled_from("uvw"), "x": CELL, "c": CELL}), max_size=9
)
TEXTS = st.sampled_from(["sum(x)", "count by c", "median(x)", "top(c, 1)", "variance(x) by c"])


@given(TABLE, st.randoms(use_true_random=False), TEXTS, st.binary(max_size=8))
def test_the_order_of_rows_changes_nothing(
    table: list[Cells], random: object, text: str, key: bytes
) -> None:
    checked = parse_question(text, small_schema(rows=1))
    shuffled = table.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert evaluate(checked, table, key=key) == evaluate(checked, shuffled, key=key)


@given(TABLE, TABLE, st.binary(max_size=8))
def test_rows_of_a_unit_are_chosen_by_its_rows_alone(
    one: list[Cells], other: list[Cells], key: bytes
) -> None:
    checked = parse_question("variance(x) by c", small_schema(rows=1))
    others = [{**row, "unit": f"{row['unit']}2"} for row in other]
    separate = zip(evaluate(checked, one, key=key), evaluate(checked, others, key=key), strict=True)
    together = evaluate(checked, [*others, *one], key=key)
    assert together == tuple(
        tuple(a + b for a, b in zip(left, right, strict=True)) for left, right in separate
    )


def test_at_most_so_many_rows_of_a_unit_enter_and_each_key_chooses_others() -> None:
    table = of_unit("u", tuple({"x": 1 + i % 3} for i in range(100)))
    assert evaluate(parse_question("count", small_schema(rows=2)), table, key=b"") == ((2,),)
    one_row = small_schema(rows=1)
    chosen = {evaluate(parse_question("sum(x)", one_row), table, key=bytes([k])) for k in range(40)}
    assert chosen == {((1,),), ((2,),), ((3,),)}
    narrower = parse_question("count where x >= 2 rows 1", small_schema(rows=2))
    assert evaluate(narrower, table, key=b"") == ((1,),)


def test_the_filter_comes_before_the_bound_on_rows() -> None:
    table = of_unit("u", tuple({"x": x} for x in (-1, 0, 1, 2, 3)))
    checked = parse_question("count where x = 2", small_schema(rows=1))
    for key in range(20):
        assert evaluate(checked, table, key=bytes([key])) == ((1,),)


def test_the_rows_that_enter_are_the_same_on_every_machine() -> None:
    table = of_unit("u", tuple({"x": x, "c": "a", "t": True} for x in (-2, -1, 0, 1, 2, 3)))
    sums = [
        evaluate(parse_question("sum(x)", small_schema(rows=2)), table, key=bytes([key]))[0][0]
        for key in range(8)
    ]
    assert sums == [-2, -1, 1, 3, 4, 5, 5, 3]


@given(st.fractions(-9, 9), st.fractions(-99, 99), st.fractions(-99, 999))
def test_quotients_of_any_noise_are_within_the_schema(
    count: Fraction, total: Fraction, squares: Fraction
) -> None:
    column = NumberColumn(name="x", lower="-2", upper="4")
    assert -2 <= mean_value(column, count=count, total=total) <= 4
    assert 0 <= variance_value(column, count=count, total=total, squares=squares) <= 9


def test_quotients_without_noise_are_exact() -> None:
    column = NumberColumn(name="x", lower="-2", upper="5")
    # The middle of the bounds is 1, nearer to 0 than 2 is; the largest square about it is 16.
    values = [Fraction(v) for v in (-2, 0, 1, 4)]
    total = sum((v - 1 for v in values), Fraction(0))
    mean = mean_value(column, count=Fraction(4), total=total)
    assert mean == Fraction(3, 4)
    squares = sum(((v - 1) ** 2 - 8 for v in values), Fraction(0))
    variance = variance_value(column, count=Fraction(4), total=total, squares=squares)
    assert variance == sum(((v - mean) ** 2 for v in values), Fraction(0)) / 4


def test_a_standard_deviation_is_the_root_of_the_variance_rounded() -> None:
    checked = parse_question("std(x)", small_schema(lower="-2", upper="4"))
    question = checked.question
    assert isinstance(question, StdQuestion)
    # The middle of the bounds is 1, and that of the squares about it 4.
    two = question.value(checked.numbers, [Fraction(1), Fraction(0), Fraction(-2)])
    assert two == Fraction("1.414214")
    assert question.value(checked.numbers, [Fraction(-9), Fraction(50), Fraction(-7)]) == 0
