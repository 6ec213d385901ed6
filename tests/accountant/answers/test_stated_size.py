"""Means where the schema states how many rows there are: a constant, which costs nothing."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import pytest
from msgspec import UNSET

from accountant.answers.rebuild import difference_from_run
from accountant.errors import RequestInvalid
from accountant.questions import check_schema, derive, evaluate, parse_noise, parse_question
from accountant.questions.expected_error import expected_errors
from accountant.questions.schema import MAX_SIZE, CategoryColumn, NumberColumn, Schema, UnitColumn
from tests.accountant.answers.runs import answer, ask
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import SOURCE, replaced

N = 400
STATED = check_schema(
    Schema(
        source=SOURCE,
        columns=(
            NumberColumn(name="age", lower="0", upper="120", missing="60"),
            NumberColumn(name="income", lower="0", upper="5000"),
            CategoryColumn(name="region", categories=("north", "south"), missing="north"),
        ),
        unit=UnitColumn(column="person", rows=2),
        neighbours="add_remove",
        size=N,
    )
)
AGES = random.Random(1).choices(range(18, 90), k=N)
ROWS: list[dict[str, object]] = [
    {"person": i // 2, "age": age, "income": 7, "region": "south"} for i, age in enumerate(AGES)
]
MEAN = sum(AGES) / N


def statistics(text: str) -> list[str]:
    draws = derive(parse_question(text, STATED), parse_noise("epsilon: 1")).draws
    return [each.statistic.name for each in draws]


def test_a_count_of_all_rows_is_not_drawn() -> None:
    assert statistics("mean(age)") == ["sum_about_middle"]
    assert statistics("std(age)") == ["sum_about_middle", "squares_about_middle"]
    assert statistics("mean(clamp(age, 18, 65)), sum(age)") == ["sum_about_middle", "sum"]


@pytest.mark.parametrize(
    "text",
    [
        "count",
        "mean(age) where age > 30",
        "mean(age) where region = 'north' or region = 'south'",
        "mean(age) by region",
        "mean(age) rows 1",
        "mean(income)",  # without the rows that miss it
        "count, mean(age) by region",
    ],
)
def test_a_count_that_the_data_decide_is_drawn(text: str) -> None:
    assert "count" in statistics(text)


def test_the_mean_is_of_the_stated_size_whatever_the_file_holds() -> None:
    asked = ask("mean(age)", "epsilon: 1000", schema=STATED)
    for rows in (N, N // 2):
        (exact,) = evaluate(asked.checked, ROWS[:rows], key=b"key")
        found = answer(asked, (exact,), bits_of(1))
        of_file = 60 + Fraction(sum(age - 60 for age in AGES[:rows]), N)
        assert abs(Fraction(str(found.values[0])) - of_file) < Fraction(1, 100)
        assert found.bounds.size == N  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["mean(age)", "variance(age)", "std(age)"])
def test_an_answer_is_rebuilt_from_what_it_shows(text: str) -> None:
    asked = ask(text, "epsilon: 1", schema=STATED)
    found = answer(asked, evaluate(asked.checked, ROWS, key=b"key"), bits_of(3))
    assert difference_from_run(asked.granted, STATED, found) is None
    assert found.bounds.size == N  # type: ignore[union-attr]
    other = replaced(STATED, size=N + 1)
    assert difference_from_run(asked.granted, other, found) is not None


def test_the_interval_is_that_of_the_sum_over_the_size() -> None:
    """All of epsilon is for the sum: 2 rows of a distance of 60, over 400."""
    asked = ask("mean(age)", "epsilon: 1", schema=STATED)
    hits, repetitions = 0, 400
    for seed in range(repetitions):
        found = answer(asked, evaluate(asked.checked, ROWS, key=b"key"), bits_of(seed))
        low, high = (Decimal(str(each[0])) for each in (found.low, found.high))
        hits += low <= Decimal(str(MEAN)) <= high
        half = float(high - low) / 2
        assert half == pytest.approx(120 * 2.9957 / N, rel=0.02)
    # Binomial(400, .05) is above 45 with 1e-6.
    assert hits >= repetitions - 45


def test_its_expected_error_needs_no_guess() -> None:
    def error(schema: Schema) -> float:
        checked = parse_question("mean(age)", schema)
        (found,) = expected_errors(checked, parse_noise("epsilon: 1"), N)
        assert found.error is not None
        return float(found.error)

    (known,) = expected_errors(parse_question("mean(age)", STATED), parse_noise("epsilon: 1"))
    assert known.error is not None
    unstated = replaced(STATED, size=UNSET)
    assert float(known.error) < 0.5 * error(unstated)


@pytest.mark.parametrize(
    "noise", ["sigma: 20", "error: 50 at 0.95", "epsilon: 1, laplace_reduction"]
)
def test_noise_of_the_sum_is_not_noise_of_the_mean(noise: str) -> None:
    with pytest.raises(RequestInvalid):
        derive(parse_question("mean(age)", STATED), parse_noise(noise))


@pytest.mark.parametrize("size", [0, -1, MAX_SIZE + 1])
def test_a_size_is_a_number_of_rows(size: int) -> None:
    with pytest.raises(RequestInvalid, match="size must be between 1 and"):
        check_schema(replaced(STATED, size=size))
