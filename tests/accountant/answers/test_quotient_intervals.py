"""Intervals of means and variances: exact coverage, by sums over the laws of all their noises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from accountant.questions import Draw, mean_value, variance_value
from accountant.questions.draw_errors import noises_of
from accountant.questions.quotients import Interval, QuotientSet
from accountant.questions.statistics import EstimateQuestion
from research.interval_widths import MEANS, NOISES, width_of
from tests.accountant.answers.runs import Asked, answer, ask
from tests.accountant.noise import laws
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import small_schema
from tests.nightly import NIGHTLY, rounds

pytestmark = pytest.mark.timeout(1200)

CONFIDENCE = Decimal("0.95")
TABLES = {"off the middle": [2] * 60, "spread": [-2, 0, 3] * 20, "one row": [3]}


def intervals(question: Asked, numbers: Sequence[Sequence[Fraction]]) -> Sequence[Interval]:
    """Return the intervals of noisy numbers, whatever the count is."""
    statistic = question.checked.statistic
    assert isinstance(statistic, EstimateQuestion)
    noises = noises_of(question.derivation.draws)
    return statistic.intervals(
        question.checked.numbers, numbers, confidence=CONFIDENCE, noises=noises
    )


def law_of(draw: Draw, reach: float) -> list[tuple[Fraction, float]]:
    """Return the noise of a draw with its probabilities, but for a tail."""
    if draw.law == "discrete_laplace":
        scale = float(draw.spread / draw.grid)
        most = math.ceil(reach * scale)
        return [(k * draw.grid, laws.laplace(scale, k)) for k in range(-most, most + 1)]
    variance = float(draw.spread / draw.grid**2)
    most = math.ceil(reach / 2 * math.sqrt(variance))
    if draw.law == "discrete_gaussian":
        return [
            (k * draw.grid, laws.discrete_gaussian(variance, k)) for k in range(-most, most + 1)
        ]
    return [(k * draw.grid, laws.rounded(0, variance, k)) for k in range(-most, most + 1)]


def chance_to_miss(text: str, noise: str, values: Sequence[int], reach: float) -> float:
    """Return how often the interval misses, by the law of all its noises together."""
    question = ask(text, noise, schema=small_schema(rows=1))
    parts = question.checked.statistic.parts(question.checked)
    exact = [part.exact(question.checked, [list(map(Fraction, values))])[0] for part in parts]
    mean = Fraction(sum(values), len(values))
    true = mean if len(exact) == 2 else sum((x - mean) ** 2 for x in values) / len(values)
    drawn = list(product(*(law_of(draw, reach) for draw in question.derivation.draws)))
    numbers = [[a + b for a, (b, _) in zip(exact, each, strict=True)] for each in drawn]
    found = zip(drawn, intervals(question, numbers), strict=True)
    return math.fsum(
        math.prod(p for _, p in each) for each, (low, high) in found if not low <= true <= high
    )


@pytest.mark.parametrize("noise", ["epsilon: 1.5", "rho: 0.2", "rho: 0.2, rounded_gaussian"])
@pytest.mark.parametrize("table", TABLES)
def test_the_interval_of_a_mean_holds_by_the_law_of_its_noise(table: str, noise: str) -> None:
    chance = chance_to_miss("mean(x)", noise, TABLES[table], 11)
    assert chance <= 0.05
    assert chance > 0.029 or table == "one row", "it is wider than it need be"


@pytest.mark.parametrize("noise", ["epsilon: 12", "rho: 9"])
@pytest.mark.parametrize("table", TABLES if NIGHTLY else ["spread"])
def test_the_interval_of_a_variance_holds_by_the_law_of_its_noise(table: str, noise: str) -> None:
    assert chance_to_miss("variance(x)", noise, TABLES[table], 8) <= 0.05


@pytest.mark.parametrize("text", ["mean(x)", "variance(x)", "std(x)"])
@pytest.mark.parametrize("noise", ["epsilon: 1", "rho: 0.1", "rho: 0.1, rounded_gaussian"])
def test_intervals_hold_in_repetitions(text: str, noise: str) -> None:
    question = ask(text, noise, schema=small_schema(rows=1))
    values = [-2, 0, 3] * 60
    parts = question.checked.statistic.parts(question.checked)
    exact = [part.exact(question.checked, [list(map(Fraction, values))]) for part in parts]
    true = {"mean(x)": 1 / 3, "variance(x)": 38 / 9, "std(x)": math.sqrt(38 / 9)}[text]
    bits, runs, missed = bits_of(3), rounds(300, 20_000), 0
    for _ in range(runs):
        found = answer(question, exact, bits)
        low, high = found.low[0], found.high[0]
        missed += low is not None and high is not None and not float(low) <= true <= float(high)
    # So many of an interval that misses with 0.05 have at least this chance.
    assert binom.sf(missed - 1, runs, 0.05) > 1e-6


@pytest.mark.parametrize("text", ["mean(x)", "variance(x)"])
@given(
    numbers=st.tuples(
        st.fractions(-9, 99, max_denominator=4),
        st.fractions(-999, 999, max_denominator=4),
        st.fractions(-999, 999, max_denominator=4),
    )
)
def test_an_interval_contains_its_estimate_whatever_the_noise(
    text: str, numbers: tuple[Fraction, ...]
) -> None:
    question = ask(text, "epsilon: 1", schema=small_schema(rows=1))
    column = question.checked.numbers
    count, total, squares = numbers
    if text == "mean(x)":
        value, (least, most) = mean_value(column, count=count, total=total), column.bounds
    else:
        value = variance_value(column, count=count, total=total, squares=squares)
        least, most = Fraction(0), Fraction(25, 4)
    ((low, high),) = intervals(question, [numbers[: 2 if text == "mean(x)" else 3]])
    assert least <= low <= value <= high <= most
    if count <= 0:
        assert (low, high) == (least, most)


@given(
    total=st.integers(-60, 60),
    count=st.integers(1, 40),
    slope=st.fractions(0, 30),
    width=st.just(4),
)
def test_a_hull_contains_each_quotient_of_the_set(
    total: int, count: int, slope: Fraction, width: int
) -> None:
    def error(u: Fraction) -> Fraction:
        return width + slope * abs(u)

    low, high = QuotientSet((Fraction(-3), Fraction(5)), error).hull(
        Fraction(total), Fraction(count)
    )
    inside = [
        u for u in (Fraction(i, 16) for i in range(-48, 81)) if abs(total - u * count) <= error(u)
    ]
    assert all(low <= u <= high for u in inside)
    if inside:  # it is wider by about a cell of the range at most
        cell = Fraction(1, 16) + (8 + slope) * Fraction(8, 128) * 2
        assert low >= min(inside) - cell - slope * cell / count
        assert high <= max(inside) + cell + slope * cell / count


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_are_as_narrow_as_on_record(noise: str) -> None:
    for mean, count in product(MEANS, (100, 1_000)):
        found = width_of("mean", noise, mean=mean, count=count)
        # About the middle of the bounds the count adds nothing to the error.
        least = 1.1 if mean == MEANS[0] else 1.4
        assert found.before >= least * found.now
        assert found.now <= found.least * Fraction("1.02")
        found = width_of("variance", noise, mean=mean, count=count)
        assert found.before >= (1.5 if count == 1_000 else 1) * found.now
        assert found.now <= found.least * (Fraction("1.15") if count == 1_000 else 2)


def test_a_standard_deviation_has_the_roots_of_the_variances_ends() -> None:
    questions = [
        ask(text, "epsilon: 9", schema=small_schema(rows=1)) for text in ("variance(x)", "std(x)")
    ]
    numbers = [[Fraction(400), Fraction(i), Fraction(-7 * i)] for i in range(3)]
    for variance, deviation in zip(*(intervals(each, numbers) for each in questions), strict=True):
        unit = Fraction(1, 10**6)
        assert deviation[0] ** 2 <= variance[0] < (deviation[0] + unit) ** 2
        assert (deviation[1] - unit) ** 2 < variance[1] <= deviation[1] ** 2


def test_the_count_of_a_quotient_adds_its_noise() -> None:
    """The interval of a mean at an end of its bounds is that of both noises together."""
    column = small_schema(rows=1)
    question = ask("mean(x)", "rho: 0.1", schema=column)
    draws, n = question.derivation.draws, Fraction(10_000)
    u = Fraction(2)
    ((low, high),) = intervals(question, [[n, u * n]])
    deviation = math.sqrt(draws[1].spread + u**2 * draws[0].spread)
    assert 1 < float((high - low) * n / 2) / (1.959964 * deviation) < 1.08
