"""The root of the exact one-sided mixture: proven not to be too small, and the least bound."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.odometers.closed_plus_half import closed_plus_half
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import (
    OneSidedMixtureExact,
    root_above,
    start_above,
)
from tests.accountant import exact
from tests.nightly import examples

levels = st.one_of(st.just(0.0), st.floats(1e-300, 700.0), st.floats(-40, 2.8).map(lambda e: 10**e))


def exact_growth(z: float) -> mpmath.mpf:
    """Return z^2/2 + ln(2 Phi(z)) to 80 digits."""
    real = exact.real(Fraction(z))
    return real**2 / 2 + mpmath.log1p(mpmath.erf(real / mpmath.sqrt(2)))


@settings(max_examples=examples(500), deadline=None)
@given(levels)
def test_the_root_satisfies_its_inequality_and_hardly_more(level: float) -> None:
    z = root_above(level)
    due = exact.real(Fraction(level))
    assert exact_growth(z) >= due
    assert exact_growth(z * (1 - 1e-10)) <= due
    assert z <= start_above(level)


@given(levels)
def test_newton_starts_above_the_root(level: float) -> None:
    assert exact_growth(start_above(level)) >= exact.real(Fraction(level))


@given(st.integers(-40, -1), st.integers(-25, 8), st.floats(-25, 9))
def test_the_exact_root_is_below_every_closed_form(delta: int, r: int, log_v: float) -> None:
    v = 10**log_v
    written = f"1e{delta}", f"1e{r}"
    root = OneSidedMixtureExact(*written).boundary()(v)
    half = closed_plus_half(delta=written[0], r=written[1])(v)
    one = OneSidedMixture(*written).boundary()(v)
    two_sided = Mixture(*written).boundary()(v)
    assert root <= half * (1 + 1e-11)
    assert half <= one * (1 + 1e-11)
    assert root <= two_sided * (1 + 1e-11)
    assert math.isfinite(root)
