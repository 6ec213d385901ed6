"""Intervals hold with their probability: by sums of the law, and by simulation with fixed seeds."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from scipy.stats import binom, norm

from accountant.answers.intervals import outward_decimals
from accountant.questions import derive, evaluate, parse_noise, parse_question
from accountant.questions.draw_errors import half_width
from accountant.questions.error_at_confidence import (
    confidence_of_each,
    discrete_gaussian_half_width,
    laplace_half_width,
    normal_half_width,
    normal_quantile,
)
from accountant.questions.laws import FORMS, LAWS, OneAnswerLaw
from tests.accountant.answers.runs import answer, ask
from tests.accountant.noise import laws
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import CENSUS, small_schema
from tests.every_case import check_each
from tests.nightly import rounds

pytestmark = pytest.mark.timeout(1200)

CONFIDENCES = [confidence_of_each(Decimal("0.95"), n) for n in (1, 2, 3, 192)]
GRIDS = [Fraction(1), Fraction(1, 100)]


def tail(law: Callable[[int], float], m: int) -> float:
    """Return P(|K| > m), by a sum over the law."""
    return 1 - math.fsum(law(k) for k in range(-m, m + 1))


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_quantile_of_the_normal_is_rounded_up(confidence: Decimal) -> None:
    z = float(normal_quantile(confidence))
    exact = norm.isf(float(1 - confidence) / 2)
    assert exact <= z <= exact * (1 + 1e-5)


def test_laplace_noise_is_within_its_half_width_and_no_less() -> None:
    def check_case(scale: Fraction, confidence: Decimal, grid: Fraction) -> None:
        def law(k: int) -> float:
            return laws.laplace(float(scale), k)

        m = laplace_half_width(scale=scale * grid, confidence=confidence, grid=grid) / grid
        assert tail(law, int(m)) <= float(1 - confidence) + 1e-12
        assert m == 0 or tail(law, int(m) - 1) > float(1 - confidence)

    check_each(
        check_case,
        [Fraction(1, 50), Fraction(1), Fraction(22, 7), Fraction(100)],
        CONFIDENCES,
        GRIDS,
    )


def test_half_widths_at_extreme_scales() -> None:
    one, confidence = Fraction(1), CONFIDENCES[0]
    tiny, huge = Fraction(1, 10**30), Fraction(10**30)
    assert laplace_half_width(scale=tiny, confidence=confidence, grid=one) == 0
    assert normal_half_width(variance=tiny, confidence=confidence, grid=one) == 0
    laplace = laplace_half_width(scale=huge, confidence=confidence, grid=one)
    assert math.isclose(laplace, 1e30 * math.log(20), rel_tol=1e-12)
    found = normal_half_width(variance=huge**2, confidence=confidence, grid=one)
    assert math.isclose(found, 1e30 * norm.isf(0.025), rel_tol=1e-5)


def test_rounded_noise_is_within_its_half_width_and_no_less() -> None:
    def check_case(variance: Fraction, confidence: Decimal, grid: Fraction) -> None:
        deviation = math.sqrt(variance)
        m = normal_half_width(variance=variance * grid**2, confidence=confidence, grid=grid) / grid
        assert 2 * norm.sf((float(m) + 0.5) / deviation) <= float(1 - confidence)
        assert m == 0 or 2 * norm.sf((float(m) - 0.5) / deviation) > float(1 - confidence)

    check_each(
        check_case,
        [Fraction(1, 50), Fraction(1), Fraction(31, 3), Fraction(900)],
        CONFIDENCES,
        GRIDS,
    )


def test_the_half_width_of_discrete_gaussian_noise_is_the_least() -> None:
    def check_case(variance: Fraction, confidence: Decimal, grid: Fraction) -> None:
        def law(k: int) -> float:
            return laws.discrete_gaussian(float(variance), k)

        given = {"variance": variance * grid**2, "grid": grid}
        m = int(discrete_gaussian_half_width(confidence=confidence, **given) / grid)
        assert tail(law, m) <= float(1 - confidence)
        assert m == 0 or tail(law, m - 1) > float(1 - confidence)

    check_each(
        check_case,
        [Fraction(1, 50), Fraction(1), Fraction(31, 3), Fraction(900)],
        CONFIDENCES,
        GRIDS,
    )


def test_ends_are_rounded_outward() -> None:
    ends = outward_decimals((Fraction(-1, 3), Fraction(2, 3)), 2)
    assert ends == (Fraction(-34, 100), Fraction(67, 100))
    assert outward_decimals((Fraction(-5), Fraction(5)), 0) == (Fraction(-5), Fraction(5))


@pytest.mark.parametrize("noise", ["epsilon: 2", "rho: 0.5", "rho: 0.5, rounded_gaussian"])
@pytest.mark.parametrize("text", ["count by c", "sum(x)", "mean(x)", "variance(x) by c"])
def test_intervals_of_answers_hold(text: str, noise: str) -> None:
    question = ask(text, noise, schema=small_schema(rows=1))
    rows = [{"unit": str(i), "x": i % 6 - 2, "c": "aab"[i % 3]} for i in range(45)]
    statistics = evaluate(question.checked, rows, key=b"key")
    nearly_exact = ask(text, "epsilon: 1000", schema=small_schema(rows=1))
    nearly = answer(nearly_exact, statistics, bits_of(1)).values
    exact = [Fraction(each) for each in nearly if each is not None]
    assert len(exact) == len(nearly)
    bits, runs = bits_of(2), rounds(400, 20_000)
    missed = [0] * len(exact)
    for _ in range(runs):
        found = answer(question, statistics, bits)
        for i, value in enumerate(exact):
            low, high = found.low[i], found.high[i]
            if low is not None and high is not None:  # without an estimate it misses nothing
                missed[i] += not Fraction(low) <= value <= Fraction(high)
    # So many of an interval that misses with 0.05 have at least this chance.
    assert binom.sf(max(missed) - 1, runs, 0.05) > 1e-6


def test_an_answer_is_within_the_error_that_it_was_asked_with() -> None:
    def check_case(asked: tuple[str, str], confidence: str, law: str) -> None:
        text, error = asked
        noise = f"error: {error} at {confidence}, {law}"
        (draw,) = derive(parse_question(text, CENSUS), parse_noise(noise)).draws
        assert half_width(draw, Decimal(confidence)) <= Fraction(error)

    laws_of_errors = [name for name in FORMS["error"] if isinstance(LAWS[name], OneAnswerLaw)]
    counts = [("count", error) for error in ("5", "20", "40", "150", "20000")]
    sums = [("sum(income)", error) for error in ("4444", "20000")]
    check_each(check_case, [*counts, *sums], ["0.9", "0.95"], laws_of_errors)
