"""Compositions of fixed parameters: figures of the lecture, brackets, and the exact optimum."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from research.comparators import (
    Runs,
    advanced_2010_epsilon,
    basic_epsilon,
    optimal_count,
    optimal_delta,
    optimal_epsilon,
    quoted_2016_epsilon,
    strong_delta,
    strong_epsilon,
)
from tests.accountant import exact
from tests.nightly import examples

HUNDREDTH, MILLIONTH = Decimal("0.01"), Decimal("1e-6")

epsilons = st.builds(lambda m, e: Decimal(f"{m}e{e}"), st.integers(1, 9999), st.integers(-12, -2))
deltas = st.builds(lambda m, e: Decimal(f"{m}e{e}"), st.integers(1, 99), st.integers(-40, -2))
runs_of = st.lists(st.tuples(epsilons, st.integers(1, 10**6)), min_size=1, max_size=5)


def brackets(ours: Decimal | Fraction, due: Any) -> None:
    value = exact.real(Fraction(ours))
    assert due <= value <= due * (1 + mpmath.mpf(10) ** -9)


def summed(runs: Runs, part: Any) -> Any:
    return mpmath.fsum(count * part(exact.real(Fraction(epsilon))) for epsilon, count in runs)


@settings(max_examples=examples(200), deadline=None)
@given(runs_of, deltas)
def test_each_bound_is_its_formula_rounded_up(runs: Runs, delta: Decimal) -> None:
    log = -mpmath.log(exact.real(Fraction(delta)))
    v = summed(runs, lambda e: e**2)
    root = mpmath.sqrt(2 * v * log)
    assert basic_epsilon(runs) == sum(Fraction(epsilon) * count for epsilon, count in runs)
    tight = summed(runs, lambda e: e * mpmath.expm1(e) / (mpmath.exp(e) + 1))
    brackets(strong_epsilon(runs, delta=delta), tight + root)
    brackets(
        advanced_2010_epsilon(runs, delta=delta), summed(runs, lambda e: e * mpmath.expm1(e)) + root
    )


@settings(max_examples=examples(200), deadline=None)
@given(runs_of, deltas, st.integers(3, 10**9))
def test_the_quoted_odometer_is_its_formula_rounded_up(runs: Runs, delta: Decimal, n: int) -> None:
    d, v = exact.real(Fraction(delta)), summed(runs, lambda e: e**2)
    log_n = mpmath.log(n)
    if mpmath.mpf(1) / n**2 <= v <= 1:
        factor = mpmath.log(110 * mpmath.e) + 2 * mpmath.log(log_n / d)
        due = mpmath.sqrt(2 * v * factor)
    else:
        grown = 1 + mpmath.log(1 + n**2 * v) / 2
        tail = mpmath.log(4 / d * mpmath.log(n, 2))
        due = mpmath.sqrt(2 * (mpmath.mpf(1) / n**2 + v) * grown * tail)
    brackets(quoted_2016_epsilon(runs, delta=delta, n=n), due + v / 2)


def test_the_lectures_figure() -> None:
    def strong(count: int) -> Decimal:
        return strong_epsilon([(HUNDREDTH, count)], delta=MILLIONTH)

    below = [k for k in range(1, 40) if strong(k) < basic_epsilon([(HUNDREDTH, k)])]
    assert below[0] == 28
    assert below == list(range(28, 40))
    assert round(strong(10_000), 4) == Decimal("5.7565")


def test_advanced_composition_at_v_1() -> None:
    assert round(strong_epsilon([(Decimal("0.1"), 100)], delta=MILLIONTH), 4) == Decimal("5.7561")


def test_deltas_add_up() -> None:
    whole = strong_delta([(Decimal("1e-9"), 100), (Decimal("1e-8"), 3)], delta=MILLIONTH)
    assert whole == Fraction(13, 10**8) + Fraction(1, 10**6)


@pytest.mark.parametrize("delta", [Decimal(0), Decimal(1), Decimal("-0.1"), Decimal(2)])
def test_a_delta_that_is_no_probability_is_refused(delta: Decimal) -> None:
    runs = [(HUNDREDTH, 1)]
    for call in (strong_epsilon, advanced_2010_epsilon):
        with pytest.raises(ValueError, match="delta must be above 0 and below 1"):
            call(runs, delta=delta)


def hockey_stick(k: int, e: Any, target: Any) -> Any:
    """Return the sum of the theory page, term by term."""
    p = mpmath.exp(e) / (1 + mpmath.exp(e))
    return mpmath.fsum(
        mpmath.binomial(k, j)
        * p**j
        * (1 - p) ** (k - j)
        * max(mpmath.mpf(0), 1 - mpmath.exp(target - (2 * j - k) * e))
        for j in range(k + 1)
    )


class TestTheOptimum:
    @settings(max_examples=examples(100), deadline=None)
    @given(st.integers(1, 60), epsilons, st.integers(0, 10**6))
    @example(3, Decimal("0.55"), 10**6)  # of k epsilon itself 80 digits leave 1e-82
    def test_optimal_delta_is_the_binomial_hockey_stick(
        self, k: int, epsilon: Decimal, part: int
    ) -> None:
        target = epsilon * k * part / 10**6
        ours = optimal_delta(mechanisms=k, epsilon=epsilon, target=target)
        due = hockey_stick(k, exact.real(Fraction(epsilon)), exact.real(Fraction(target)))
        if target == k * epsilon:
            due = mpmath.mpf(0)  # no loss is larger
        assert due <= exact.real(Fraction(ours)) * (1 + mpmath.mpf(10) ** -60)
        brackets(ours, due)

    @pytest.mark.slow
    def test_optimal_delta_is_accurate_for_ten_thousand_mechanisms(self) -> None:
        k, e = 10_000, mpmath.mpf(1) / 100
        for target in ("0", "4", "99.9"):
            ours = optimal_delta(mechanisms=k, epsilon=HUNDREDTH, target=Decimal(target))
            p, t = mpmath.exp(e) / (1 + mpmath.exp(e)), exact.real(target)
            # From the middle up; the masses by logarithms of gamma functions.
            due = mpmath.fsum(
                mpmath.exp(
                    mpmath.loggamma(k + 1)
                    - mpmath.loggamma(j + 1)
                    - mpmath.loggamma(k - j + 1)
                    + j * mpmath.log(p)
                    + (k - j) * mpmath.log1p(-p)
                )
                * -mpmath.expm1(t - (2 * j - k) * e)
                for j in range(k // 2, k + 1)
                if (2 * j - k) * e > t
            )
            brackets(ours, due)

    def test_562_fit_at_a_hundredth(self) -> None:
        assert optimal_count(epsilon=HUNDREDTH, target=Decimal(1), delta=MILLIONTH) == 562
        assert optimal_delta(mechanisms=562, epsilon=HUNDREDTH, target=Decimal(1)) <= MILLIONTH
        assert optimal_delta(mechanisms=563, epsilon=HUNDREDTH, target=Decimal(1)) > MILLIONTH

    @pytest.mark.parametrize(
        ("epsilon", "target", "delta", "fit"),
        [("0.1", "1", "1e-6", 10), ("1", "0.5", "1e-6", 0), ("0.5", "1", "0", 2)],
    )
    def test_counts(self, epsilon: str, target: str, delta: str, fit: int) -> None:
        arguments = Decimal(epsilon), Decimal(target), Decimal(delta)
        names = ("epsilon", "target", "delta")
        assert optimal_count(**dict(zip(names, arguments, strict=True))) == fit

    @pytest.mark.slow
    @settings(max_examples=examples(100), deadline=None)
    @given(st.integers(1, 200), epsilons, deltas)
    def test_optimal_epsilon_is_the_smallest_that_satisfies_delta(
        self, k: int, epsilon: Decimal, delta: Decimal
    ) -> None:
        minimum = optimal_epsilon(mechanisms=k, epsilon=epsilon, delta=delta)
        e, d = exact.real(Fraction(epsilon)), exact.real(Fraction(delta))
        assert hockey_stick(k, e, exact.real(Fraction(minimum))) <= d
        if minimum:
            less = exact.real(Fraction(minimum)) * (1 - mpmath.mpf(10) ** -12)
            assert hockey_stick(k, e, less) > d
        assert minimum <= k * epsilon * (1 + Decimal("1e-20"))

    def test_optimal_epsilon_is_at_most_that_of_strong_and_basic_composition(self) -> None:
        for k in (1, 28, 100, 562, 2000):
            runs = [(HUNDREDTH, k)]
            best = optimal_epsilon(mechanisms=k, epsilon=HUNDREDTH, delta=MILLIONTH)
            assert best <= min(strong_epsilon(runs, delta=MILLIONTH), Decimal(k) * HUNDREDTH) * (
                1 + Decimal("1e-20")
            )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"mechanisms": -1}, "mechanisms must be between 0 and 1,000,000"),
            ({"mechanisms": 1_000_001}, "mechanisms must be between 0 and 1,000,000"),
            ({"epsilon": Decimal(-1)}, "epsilon must be at least 0"),
            ({"target": Decimal(-1)}, "target must be at least 0"),
        ],
    )
    def test_arguments_out_of_range_are_refused(
        self, arguments: dict[str, Any], message: str
    ) -> None:
        good = {"mechanisms": 1, "epsilon": HUNDREDTH, "target": Decimal(1)}
        with pytest.raises(ValueError, match=message):
            optimal_delta(**(good | arguments))

    def test_mechanisms_of_epsilon_0_have_optimal_delta_0(self) -> None:
        none = Decimal(0)
        assert optimal_delta(mechanisms=9, epsilon=none, target=none) == 0
        assert optimal_epsilon(mechanisms=9, epsilon=none, delta=none) == 0

    def test_optimal_count_refuses_a_delta_of_1(self) -> None:
        with pytest.raises(ValueError, match="delta must be at least 0 and below 1"):
            optimal_count(epsilon=HUNDREDTH, target=Decimal(1), delta=Decimal(1))
