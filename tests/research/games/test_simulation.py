"""The simulation lemma, exactly: T(RR(0)) has law P and T(RR(1)) law Q, as fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest

from research.games.randomized_response import RandomizedResponseLaw, ResponseOutcome
from research.games.simulation import LaplaceSimulator, simulator

Laws = tuple[list[Fraction], list[Fraction]]


def hockey_stick(p: Sequence[Fraction], q: Sequence[Fraction], odds: Fraction) -> Fraction:
    return sum((max(x - odds * y, Fraction(0)) for x, y in zip(p, q, strict=True)), Fraction(0))


@st.composite
def laws(draw: st.DrawFn) -> Laws:
    size = draw(st.integers(1, 6))
    weights = st.lists(st.integers(0, 50), min_size=size, max_size=size).filter(any)
    p, q = draw(weights), draw(weights)
    return [Fraction(x, sum(p)) for x in p], [Fraction(x, sum(q)) for x in q]


def check(p: list[Fraction], q: list[Fraction], odds: Fraction, delta: Fraction) -> None:
    maps = simulator(p, q, odds=odds, delta=delta)
    for law in maps:
        assert sum(law) == 1
        assert min(law) >= 0
    likely, unlikely = (1 - delta) * odds / (1 + odds), (1 - delta) / (1 + odds)
    for wanted, weights in (
        (p, (delta, likely, unlikely, Fraction(0))),
        (q, (Fraction(0), unlikely, likely, delta)),
    ):
        got = [
            sum((w * law[i] for w, law in zip(weights, maps, strict=True)), Fraction(0))
            for i in range(len(wanted))
        ]
        assert got == wanted


@given(laws(), st.integers(10, 80), st.fractions(0, 1))
def test_every_mechanism_comes_out_of_randomized_response(
    pair: Laws, tenths: int, slack: Fraction
) -> None:
    p, q = pair
    odds = Fraction(tenths, 10)
    minimum = max(hockey_stick(p, q, odds), hockey_stick(q, p, odds))
    check(p, q, odds, minimum)
    check(p, q, odds, minimum + slack * (1 - minimum))


@given(laws(), st.integers(10, 80), st.fractions(min_value="1/1000000", max_value=1))
def test_less_delta_than_the_mechanism_has_is_refused(
    pair: Laws, tenths: int, less: Fraction
) -> None:
    p, q = pair
    odds = Fraction(tenths, 10)
    minimum = max(hockey_stick(p, q, odds), hockey_stick(q, p, odds))
    if minimum:
        with pytest.raises(ValueError, match="not indistinguishable"):
            simulator(p, q, odds=odds, delta=minimum * (1 - less))


def test_arguments_that_are_no_laws_are_refused() -> None:
    half, one = [Fraction(1, 2)] * 2, Fraction(1)
    with pytest.raises(ValueError, match="laws"):
        simulator(half, [one], odds=one, delta=Fraction(0))
    with pytest.raises(ValueError, match="laws"):
        simulator(half, [one, one], odds=one, delta=Fraction(0))
    with pytest.raises(ValueError, match="odds"):
        simulator(half, half, odds=Fraction(1, 2), delta=Fraction(0))


class TestLaplace:
    @pytest.mark.parametrize("epsilon", [0.01, 0.7, 5.0])
    def test_the_two_maps_mix_to_the_two_laplace_densities(self, epsilon: float) -> None:
        simulate = LaplaceSimulator(epsilon)
        for x in np.linspace(-9.97, 10.97, 700):
            top, bottom = (
                simulate.density(z, x) for z in (ResponseOutcome.TOP, ResponseOutcome.BOTTOM)
            )
            for b in (0, 1):
                _, w_top, w_bottom, _ = RandomizedResponseLaw(epsilon).law(b)
                laplace = epsilon / 2 * math.exp(-epsilon * abs(x - b))
                assert w_top * top + w_bottom * bottom == pytest.approx(laplace, rel=1e-11)

    @pytest.mark.parametrize("outcome", [ResponseOutcome.TOP, ResponseOutcome.BOTTOM])
    def test_the_laplace_simulator_samples_from_its_density(self, outcome: ResponseOutcome) -> None:
        simulate, generator = LaplaceSimulator(1.3), np.random.default_rng(7)
        values = [simulate.sample(outcome, generator) for _ in range(4_000)]
        grid = np.linspace(-12, 13, 400)
        parts = [
            quad(lambda x: simulate.density(outcome, x), a, b, points=[0, 1])[0]
            for a, b in pairwise(grid)
        ]
        assert sum(parts) == pytest.approx(1, abs=1e-6)
        cdf = np.concatenate([[0.0], np.cumsum(parts)])
        assert kstest(values, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-4

    def test_post_processed_randomized_response_is_laplace_noise(self) -> None:
        epsilon, generator = 1.3, np.random.default_rng(11)
        response, simulate = RandomizedResponseLaw(epsilon), LaplaceSimulator(epsilon)
        for b in (0, 1):
            values = [
                simulate.sample(response.sample(b, generator), generator) for _ in range(4_000)
            ]
            assert kstest(values, "laplace", args=(b, 1 / epsilon)).pvalue > 1e-4

    @pytest.mark.parametrize("outcome", [ResponseOutcome.ZERO, ResponseOutcome.ONE])
    def test_randomized_response_without_delta_never_reveals_the_bit(
        self, outcome: ResponseOutcome
    ) -> None:
        with pytest.raises(ValueError, match="never answers"):
            LaplaceSimulator(1.0).density(outcome, 0.0)
        with pytest.raises(ValueError, match="never answers"):
            LaplaceSimulator(1.0).sample(outcome, np.random.default_rng(0))
