"""How many equal pure mechanisms fit: never one too many, and not one too few."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.conversions.optimal_composition import composed_delta, most_composed
from tests.accountant import exact
from tests.accountant.filters.rules import composed
from tests.accountant.filters.rules import most_composed as most_in_full
from tests.nightly import examples

MOST = 10**7


def maximum(each: str, epsilon: str, delta: str, limit: int = MOST) -> int | None:
    return most_composed(
        epsilon=Decimal(each), target=Decimal(epsilon), delta=Decimal(delta), maximum=limit
    )


def by_gamma_functions(k: int, each: str, epsilon: str) -> mpmath.mpf:
    """Return the hockey-stick of k randomized responses: each mass by three logarithms."""
    e, goal = exact.real(each), exact.real(epsilon)
    log_p, log_q = -mpmath.log1p(mpmath.exp(-e)), -mpmath.log1p(mpmath.exp(e))
    first = (k + math.floor(Fraction(epsilon) / Fraction(each))) // 2 + 1
    total = mpmath.mpf(0)
    for j in range(first, k + 1):
        ways = mpmath.loggamma(k + 1) - mpmath.loggamma(j + 1) - mpmath.loggamma(k - j + 1)
        mass = mpmath.exp(ways + j * log_p + (k - j) * log_q)
        total += mass * -mpmath.expm1(goal - (2 * j - k) * e)
        if mass < total * mpmath.mpf(10) ** -30 and j > k / 2 + k * mpmath.tanh(e / 2) / 2:
            return total
    return total


@pytest.mark.parametrize(
    ("each", "epsilon", "delta", "count"),
    [
        ("0.01", "1", "1e-6", 562),
        ("0.02", "1", "1e-6", 142),
        ("0.1", "1", "1e-6", 10),
        ("0.3", "1", "0.05", 6),
        ("1", "1", "1e-40", 1),
        ("2", "1", "1e-6", 0),
        ("2", "1", "0.6", 1),
        ("3", "40", "1e-6", 13),
        ("0.5", "1000", "1e-40", 4650),
    ],
)
def test_counts(each: str, epsilon: str, delta: str, count: int) -> None:
    assert maximum(each, epsilon, delta) == count == most_in_full(each, epsilon, delta)


@settings(max_examples=examples(60), deadline=None)
@given(
    # The reference takes half a minute for 600,000 mechanisms of 0.01.
    st.integers(3, 300).map(lambda n: f"{n / 100}"),
    st.sampled_from(["0.05", "0.7", "1", "3", "20"]),
    st.sampled_from(["1e-30", "1e-9", "1e-3", "0.2", "0.9"]),
)
def test_the_optimal_count_fits_exactly_and_one_more_does_not(
    each: str, epsilon: str, delta: str
) -> None:
    found = maximum(each, epsilon, delta)
    assert found is not None
    assert composed(found, each, epsilon) <= exact.real(delta)
    assert composed(found + 1, each, epsilon) > exact.real(delta)


@pytest.mark.parametrize(
    ("each", "epsilon", "delta"),
    [
        ("0.001", "1", "1e-6"),
        ("3e-4", "0.5", "1e-9"),
        ("1e-4", "1", "1e-6"),
        ("0.05", "100", "1e-8"),
    ],
)
def test_the_optimal_count_is_exact_for_hundreds_of_thousands_of_mechanisms(
    each: str, epsilon: str, delta: str
) -> None:
    found = maximum(each, epsilon, delta)
    assert found is not None
    with mpmath.workdps(40):
        assert by_gamma_functions(found, each, epsilon) <= exact.real(delta)
        assert by_gamma_functions(found + 1, each, epsilon) > exact.real(delta)


@pytest.mark.parametrize(
    ("k", "each", "epsilon"),
    [
        (1, "0.5", "0.3"),
        (563, "0.01", "1"),
        (1999, "0.04", "0"),
        (2001, "1", "0.1"),
        (10**6, "0.002", "3"),
        (10**6, "1", "1000"),
    ],
)
def test_a_composed_delta_is_rounded_up_by_very_little(k: int, each: str, epsilon: str) -> None:
    ours = composed_delta(mechanisms=k, epsilon=Decimal(each), target=Decimal(epsilon))
    if k > 5000 and each == "1":
        assert 1 < Fraction(ours) < 1 + Fraction(1, 10**59)  # all but e^-100,000 of the mass
        return
    with mpmath.workdps(80):
        due = by_gamma_functions(k, each, epsilon) if k > 5000 else composed(k, each, epsilon)
        slack = mpmath.mpf(10) ** (-28 if k > 5000 else -55)  # of the reference, which leaves off
        assert due <= exact.real(Fraction(ours)) <= due * (1 + slack)


@pytest.mark.parametrize(
    ("k", "each", "epsilon"), [(10, "0.1", "1"), (0, "1", "0"), (7, "0", "0"), (3, "1e-12", "1")]
)
def test_composed_delta_is_0_if_no_loss_exceeds_the_target(k: int, each: str, epsilon: str) -> None:
    assert composed_delta(mechanisms=k, epsilon=Decimal(each), target=Decimal(epsilon)) == 0


def test_a_composed_delta_too_small_for_a_decimal_is_above_0() -> None:
    tiny = composed_delta(mechanisms=2001, epsilon=Decimal(1000), target=Decimal(2_000_999))
    assert tiny > 0
    minimum = composed_delta(mechanisms=10**7, epsilon=Decimal("1e-12"), target=Decimal("9.99e-6"))
    assert 0 < minimum < Decimal("1e-800000")


@pytest.mark.parametrize(
    ("each", "epsilon", "delta"),
    [
        ("0.00008", "1", "1e-6"),
        ("0.00007", "1", "1e-6"),
        ("1e-12", "1", "1e-6"),
        ("1e-4", "1e-12", "0.1"),
        ("3e-4", "1", "0.99999999999999999999999999999999999999"),
        ("1e-12", "1e-12", "1e-40"),
        ("0.25", "1000", "1e-40"),
    ],
)
@pytest.mark.timeout(60)  # one by one would take far longer
def test_ten_million_are_not_counted_one_by_one(each: str, epsilon: str, delta: str) -> None:
    found = maximum(each, epsilon, delta)
    assert found is None or found <= MOST


def test_a_count_above_the_maximum_is_none() -> None:
    assert maximum("0.01", "1", "1e-6", 562) == 562
    assert maximum("0.01", "1", "1e-6", 561) is None
    assert maximum("0.01", "1", "1e-6", 1) is None
    assert maximum("0.1", "1", "0", 10) == 10
