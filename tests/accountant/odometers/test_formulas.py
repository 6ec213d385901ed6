"""Readings against 80 digits over the whole range of parameters: never below, hardly above."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import UNIT, units_up
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.odometers import Odometer, Reader
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.base import Boundary
from accountant.odometers.basic import Basic
from accountant.odometers.closed_plus_half import closed_plus_half
from accountant.odometers.combined import Combined
from accountant.odometers.linear import Linear, y_star
from accountant.odometers.lines import discrete_mixture, lines_min
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from accountant.odometers.stitched_exact import stitched_exact
from tests.accountant import exact
from tests.accountant.odometers import formulas
from tests.nightly import examples

SUMS = ("loss_time", "loss_epsilon", "loss_epsilon_squared", "loss_kl_mean")


def wire(mantissa: int, exponent: int) -> str:
    return f"{mantissa}e{exponent}"


# 1e-40 to 0.99, in every decade; and close to 1, where ln(1/delta) is small.
deltas = st.one_of(
    st.builds(wire, st.integers(1, 999), st.integers(-40, -4)),
    st.builds(lambda m: f"0.{m:04}", st.integers(1, 9900)),
)
small_deltas = st.builds(wire, st.integers(1, 36), st.integers(-40, -2))
# What a policy takes: 1e-25 to 1e9.
parameters = st.builds(wire, st.integers(1, 999), st.integers(-25, 6))
amounts = st.one_of(
    st.just(0),
    st.builds(lambda m, e: m * 10**e, st.integers(1, 10**6), st.integers(9, 43)),
)
singles = st.one_of(
    st.builds(Basic),
    st.builds(Linear, deltas, parameters),
    st.builds(Mixture, deltas, parameters),
    st.builds(OneSidedMixture, deltas, parameters),
    st.builds(OneSidedMixtureExact, deltas, parameters),
    st.builds(Stitched, deltas, parameters),
    st.builds(Advanced2016, small_deltas, parameters),
    st.builds(Advanced2016N, small_deltas, st.integers(4, 10**12)),
)


def brackets(ours: float, due: Any) -> None:
    if due == mpmath.inf:
        assert ours == math.inf
        return
    assert due <= mpmath.mpf(ours) <= due * (1 + mpmath.mpf(10) ** -9)


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(singles, amounts, amounts)
def test_a_reading_is_the_formula_rounded_up(odometer: Odometer, v: int, mean: int) -> None:
    ours = Reader(odometer, SUMS, 0)((v, v, v, mean))
    brackets(ours, formulas.bound(odometer, exact.units(v), exact.units(mean)))


@settings(max_examples=examples(300), deadline=None)
@given(singles, amounts, amounts, amounts)
def test_a_reading_never_falls(odometer: Odometer, v: int, more: int, mean: int) -> None:
    if isinstance(odometer, Advanced2016N):
        assume(odometer.n >= 8)  # below, its formula itself falls at V = 1
    if isinstance(odometer, Stitched):
        assume(v >= units_up(Decimal(odometer.v0)))
    read = Reader(odometer, SUMS, 0)
    after = v + more
    # Rounding up may put two nearly equal sums in the other order by a few ulps.
    assert read((v, v, v, mean)) <= read((after, after, after, mean)) * (1 + 1e-12)


AT_1 = {
    "linear": (Linear("1e-6", "0.5"), "6.0754"),
    "mixture": (Mixture("1e-6", "0.05"), "6.1753"),
    "one_sided_mixture": (OneSidedMixture("1e-6", "0.05"), "6.0456"),
    "stitched": (Stitched("1e-6", "0.01"), "6.5825"),
    "advanced_2016_n": (Advanced2016N("1e-6", 1000), "10.9401"),
}


@pytest.mark.parametrize("name", AT_1)
def test_readings_at_v_1_equal_those_of_the_theory_page(name: str) -> None:
    odometer, printed = AT_1[name]
    hundred = price(check_claim(c.Repeat(c.Pure("0.1"), 100)), ("loss_kl_mean",)).amounts[0]
    reading = Reader(odometer, SUMS, 0)((UNIT, UNIT, UNIT, hundred))
    assert f"{reading:.4f}" == printed


@pytest.mark.parametrize("n", [4, 5, 1000, 10**12])
def test_the_branch_of_advanced_2016_n_is_decided_exactly(n: int) -> None:
    odometer = Advanced2016N("1e-6", n)
    read = Reader(odometer, SUMS, 0)
    first = -(-UNIT // n**2)  # the least amount that is not below 1/n^2
    for v in (first - 1, first, first + 1, UNIT - 1, UNIT, UNIT + 1):
        brackets(read((v, v, v, 0)), formulas.bound(odometer, exact.units(v), mpmath.mpf(0)))


# Those that are no policy's choice.

floats = st.one_of(st.just(0.0), st.floats(-25, 9).map(lambda e: float(10**e)))


def real(v: float) -> Any:
    return exact.real(Fraction(v))


@settings(max_examples=examples(200), deadline=None)
@given(deltas, parameters, floats)
def test_the_closed_form_of_p8_is_rounded_up(delta: str, r: str, v: float) -> None:
    due = formulas.one_sided(delta, r, real(v), plus=formulas.HALF)
    brackets(closed_plus_half(delta=delta, r=r)(v), due)


@settings(max_examples=examples(200), deadline=None)
@given(deltas, parameters, floats)
def test_stitching_with_exact_constants_is_rounded_up(delta: str, v0: str, v: float) -> None:
    due = formulas.stitched_exact(exact.real(delta), exact.real(v0), real(v))
    brackets(stitched_exact(delta=delta, v0=v0)(v), due)


weighted = st.lists(st.tuples(parameters, st.integers(1, 100)), min_size=1, max_size=6)


@settings(max_examples=examples(80), deadline=None)
@given(deltas, weighted, floats)
def test_several_lines_are_rounded_up(delta: str, lines: list[tuple[str, int]], v: float) -> None:
    slopes = tuple(slope for slope, _ in lines)
    weights = tuple(f"{weight / 1000}" for _, weight in lines)
    exact_lines = [(exact.real(s), exact.real(w)) for s, w in zip(slopes, weights, strict=True)]
    minimum = lines_min(delta=delta, slopes=slopes, weights=weights)(v)
    mixed = discrete_mixture(delta=delta, slopes=slopes, weights=weights)(v)
    brackets(minimum, formulas.lines_min(exact.real(delta), exact_lines, real(v)))
    brackets(mixed, formulas.discrete_mixture(exact.real(delta), exact_lines, real(v)))


@pytest.mark.parametrize("delta", ["0.98", "0.99", "0.999"])
@pytest.mark.parametrize("v", [0.0, 1e-9])
def test_a_mixture_is_close_where_delta_is_nearly_1(delta: str, v: float) -> None:
    slopes, weights = ("0.01", "0.1", "1", "10", "100"), ("0.2",) * 5
    exact_lines = [(exact.real(s), exact.real(w)) for s, w in zip(slopes, weights, strict=True)]
    mixed = discrete_mixture(delta=delta, slopes=slopes, weights=weights)(v)
    brackets(mixed, formulas.discrete_mixture(exact.real(delta), exact_lines, real(v)))


def test_all_are_infinite_where_v_is() -> None:
    lines = {"slopes": ("1", "2"), "weights": ("0.5", "0.5")}
    boundaries: list[Boundary] = [
        closed_plus_half(delta="0.1", r="1"),
        stitched_exact(delta="0.1", v0="1"),
        lines_min(delta="0.1", **lines),
        discrete_mixture(delta="0.1", **lines),
    ]
    for u in boundaries:
        assert u(math.inf) == math.inf


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(singles, min_size=2, max_size=4), amounts, amounts)
def test_combined_is_the_smallest_of_its_parts(parts: list[Any], v: int, mean: int) -> None:
    odometer = Combined(tuple(parts))
    if odometer.failure() >= 1:
        return
    totals = (v, v, v, mean)
    ours = Reader(odometer, SUMS, 0)(totals)
    assert ours == min(Reader(part, SUMS, 0)(totals) for part in parts)
    names = odometer.names(with_deltas=False, with_ex_post=False)
    alone = odometer.boundary()(*[totals[SUMS.index(name)] for name in names])
    assert alone == pytest.approx(ours, rel=1e-12)


@given(st.integers(1, 9999), st.integers(-11, 2), small_deltas)
def test_y_star_is_where_the_line_touches_the_filter(m: int, e: int, delta: str) -> None:
    epsilon = Decimal(f"{m}e{e}")
    log = -mpmath.log(exact.real(delta))
    y = exact.real(Fraction(y_star(epsilon=epsilon, delta=Decimal(delta))))
    # Whitehouse 2023 Thm 1 at V = y* is epsilon.
    due = exact.real(Fraction(epsilon))
    assert abs(mpmath.sqrt(2 * log * y) + y / 2 - due) <= due * mpmath.mpf(10) ** -50
    line = mpmath.sqrt(2 * y * log) / 2 + mpmath.sqrt(2 * log) / (2 * mpmath.sqrt(y)) * y + y / 2
    assert abs(line - due) <= due * mpmath.mpf(10) ** -50
