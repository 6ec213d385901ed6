"""Means and variances about the middle of the bounds err no more than about 0, at the same cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest

from accountant.noise import RandomBits, discrete_laplace
from accountant.questions import Schema, check_schema
from accountant.questions.parts import middle_of
from accountant.questions.schema import NumberColumn
from tests.accountant.answers.runs import Asked, ask, run
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import SOURCE
from tests.nightly import rounds

ROWS = 1_000
DRAWS = rounds(150, 2_000)


def schema(lower: str, upper: str) -> Schema:
    column = NumberColumn(name="x", lower=lower, upper=upper, places=2)
    return check_schema(Schema(source=SOURCE, columns=(column,), neighbours="add_remove"))


def about_zero(values: Sequence[Fraction], asked: Asked, bits: RandomBits) -> Fraction:
    """Return a mean or variance from noisy sums of powers, with an equal part of epsilon 1."""
    column, parts = asked.checked.numbers, len(asked.derivation.draws)
    noisy = []
    for power in range(parts):
        size = max(map(abs, column.bounds)) ** power
        grid = column.grid**power
        steps = discrete_laplace(parts * size / grid, bits)
        noisy.append(sum((each**power for each in values), Fraction(0)) + grid * steps)
    n = max(noisy[0], Fraction(1))
    mean = noisy[1] / n
    return mean if parts == 2 else noisy[2] / n - mean**2


@pytest.mark.parametrize(
    ("lower", "upper", "of_mean", "of_variance"),
    [
        ("0", "120", 0.71, 0.3),
        ("1000", "1100", 0.1, 0.05),
        ("-50", "100", 1.1, 0.7),
        ("-120", "-1", 0.71, 0.3),
    ],
)
def test_errors_are_smaller_at_equal_epsilon(
    lower: str, upper: str, of_mean: float, of_variance: float
) -> None:
    bits, low, high = bits_of(1), Fraction(lower), Fraction(upper)
    values = [low + (high - low) * Fraction(i % 101, 100) for i in range(ROWS)]
    mean = sum(values, Fraction(0)) / ROWS
    variance = sum(((each - mean) ** 2 for each in values), Fraction(0)) / ROWS
    for text, truth, most in (("mean(x)", mean, of_mean), ("variance(x)", variance, of_variance)):
        asked = ask(text, "epsilon: 1", schema=schema(lower, upper))
        parts = asked.checked.question.parts(asked.checked)
        statistics = [part.exact(asked.checked, [values]) for part in parts]
        squares = [0.0, 0.0]
        for _ in range(DRAWS):
            noisy = [each.values[0] for each in run(asked, statistics, bits).noisy]
            question = asked.checked.question
            now = question.value(asked.checked.numbers, noisy)  # type: ignore[union-attr]
            squares[0] += float(now - truth) ** 2
            squares[1] += float(about_zero(values, asked, bits) - truth) ** 2
        assert math.sqrt(squares[0] / squares[1]) <= most


def test_no_bounds_have_a_larger_error_to_first_order() -> None:
    for lower in range(-12, 12):
        for upper in range(lower + 1, 13):
            column = NumberColumn(name="x", lower=str(lower), upper=str(upper))
            c = middle_of(column)
            size, before = max(upper - c, c - lower), max(abs(lower), abs(upper))
            assert size == math.ceil(Fraction(upper - lower, 2)), "a smaller one is possible"
            # The difference is linear in the mean, so its ends suffice.
            for mean in (lower, upper):
                now, then = size**2 + (mean - c) ** 2, before**2 + mean**2
                assert now <= then
                if lower > 0:
                    assert 2 * now <= then
