"""Mechanisms with finitely many outcomes, and the curves of those an adversary ends with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.games import curves
from research.games.pairs import (
    Pair,
    coarsened_gaussian,
    name_and_shame,
    randomized_response,
    symmetric_atom,
)


def at(curve_value: float) -> np.ndarray:
    return np.array([curve_value])


def test_laws_that_are_none_are_refused() -> None:
    for p, q in (((0.5, 0.6), (0.5, 0.5)), ((0.0, 1.0), (0.0, 1.0))):
        with pytest.raises(ValueError, match=r"law|probability 0"):
            Pair.of(p, q)
    with pytest.raises(ValueError, match="law"):
        Pair((1.5, -0.5), (0.5, 0.5), (1.0, 0.0))
    with pytest.raises(ValueError, match="does not belong"):
        Pair((0.5, 0.5), (0.25, 0.75), (0.1, -0.4))
    with pytest.raises(ValueError, match="equally long"):
        Pair((1.0,), (1.0,), ())


@pytest.mark.parametrize(
    "pair",
    [
        randomized_response(0.7),
        name_and_shame(0.1),
        symmetric_atom(1.1, 0.05),
        coarsened_gaussian(0.8, [-0.5, 0.4, 1.1]),
    ],
)
def test_the_hockey_stick_is_the_mean_of_its_definition(pair: Pair) -> None:
    for x in (-1.0, 0.0, 0.3, 0.7, 2.0):
        mean = sum(
            p * max(0.0, 1 - math.exp(x - loss))
            for p, loss in zip(pair.p, pair.losses, strict=True)
            if p
        )
        assert pair.hockey_stick(x) == pytest.approx(mean, abs=1e-15)
        # H_x(Q||P) = 1 - e^x + e^x H_{-x}(P||Q).
        other = 1 - math.exp(x) + math.exp(x) * pair.hockey_stick(-x)
        assert pair.swapped().hockey_stick(x) == pytest.approx(other, abs=1e-14)


def test_randomized_response_has_its_curve_and_its_moments() -> None:
    pair = randomized_response(0.7)
    for x in (-2.0, -0.7, 0.0, 0.5, 0.7, 0.8):
        curve = curves.randomized_response(0.7, 0.0, at(x))[0]
        assert curve == pytest.approx(pair.hockey_stick(x), abs=1e-15)
    for order in (0.5, 1.0, 7.0):
        moment = math.cosh((order + 0.5) * 0.7) / math.cosh(0.35)  # docs/theory.md P1
        assert pair.log_moment(order) == pytest.approx(math.log(moment), rel=1e-13)
    assert name_and_shame(0.1).log_moment(1.0) == math.inf
    assert pair.chance_above(0.0) == pair.p[0]
    assert pair.chance_above(0.7) == 0.0


def test_a_coarsened_gaussian_reveals_slightly_less_than_the_gaussian() -> None:
    fine = coarsened_gaussian(0.8, list(np.linspace(-6, 7, 400)))
    coarse = coarsened_gaussian(0.8, [0.4])
    for x in (-1.0, 0.0, 0.5, 1.5, 3.0):
        full = curves.gaussian(0.8, at(x))[0]
        assert max(coarse.hockey_stick(x), fine.hockey_stick(x)) <= full + 1e-15
        assert fine.hockey_stick(x) == pytest.approx(full, rel=2e-3)
    assert coarse.hockey_stick(0.0) == pytest.approx(curves.gaussian(0.8, at(0.0))[0], rel=1e-12)


def test_curves_take_infinite_losses_and_no_noise_at_all() -> None:
    ends = np.array([-math.inf, math.inf])
    for values in (
        curves.gaussian(0.5, ends),
        curves.gaussian(0.0, ends),
        curves.randomized_response(0.5, 0.0, ends),
        curves.nothing(ends),
    ):
        assert values.tolist() == [1.0, 0.0]


def test_outcomes_come_as_often_as_their_law_says() -> None:
    pair = coarsened_gaussian(0.8, [0.4, 1.0])
    generator = np.random.default_rng(1)
    for b, law in enumerate((pair.p, pair.q)):
        drawn = np.bincount([pair.sample(b, generator) for _ in range(20_000)], minlength=3)
        for count, chance in zip(drawn, law, strict=True):
            assert abs(count - 20_000 * chance) < 6 * math.sqrt(20_000 * chance)
