"""Odometers against the adversary who stops when they look worst for the ledger.

epsilon = .1, delta = .05, 10^4 rounds: what every odometer does at most delta of the time, and
advanced composition, which is none, far more often. The probabilities are exact; 10^5 runs of
the game beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest

from accountant.amounts import UNIT
from accountant.claims import Pure, check_claim
from accountant.claims.price import price
from accountant.odometers import Odometer
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from research.games.composition import adapt_param_comp
from research.games.pairs import FloatArray
from research.games.stopping_time import (
    StoppingTimeAdversary,
    crossing_count,
    crossing_probability,
    rogers_bound,
)
from tests.nightly import rounds
from tests.research.games.exact_interval import interval

EPSILON, DELTA, ROUNDS = 0.1, 0.05, 10_000
RUNS = rounds(50_000, 100_000)  # so few tell 0.0435 from DELTA
N = np.arange(1, ROUNDS + 1)
V = ROUNDS * EPSILON**2
# The ledger's own time of one round: 2 rho = 2 epsilon tanh(epsilon/2).
TIGHT = int(price(check_claim(Pure("0.1")), ("loss_time",)).amounts[0]) / UNIT


def bounds_of(odometer: Odometer, time: float) -> FloatArray:
    """Return the odometer's readings after each round, which adds `time` to V."""
    boundary = odometer.boundary()
    # Readers are given a V rounded up; stitched begins where V is v0, which round 1 reaches.
    return np.array([boundary(n * time * (1 + 1e-13)) for n in N])


ADVANCED = N * EPSILON * math.tanh(EPSILON / 2) + np.sqrt(2 * N * EPSILON**2 * math.log(1 / DELTA))
CASES: dict[str, tuple[Callable[[], FloatArray], float]] = {
    "advanced composition, no odometer": (lambda: ADVANCED, 0.142373),
    "linear": (lambda: bounds_of(Linear("0.05", f"{V / 2:g}"), EPSILON**2), 0.043543),
    "mixture": (lambda: bounds_of(Mixture("0.05", f"{V / 20:g}"), EPSILON**2), 0.013458),
    "stitched": (lambda: bounds_of(Stitched("0.05", "0.01"), EPSILON**2), 0.001905),
    "one-sided exact, W = 2 sum rho": (
        lambda: bounds_of(OneSidedMixtureExact("0.05", f"{V / 20:g}"), TIGHT),
        0.029504,
    ),
    "one-sided exact, V = sum epsilon^2": (
        lambda: bounds_of(OneSidedMixtureExact("0.05", f"{V / 20:g}"), EPSILON**2),
        0.029239,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_crossing_probabilities_equal_known_values_and_simulations(name: str) -> None:
    make, known = CASES[name]
    bounds = make()
    exact = crossing_probability(EPSILON, bounds)
    assert exact == pytest.approx(known, abs=6e-7)
    assert (exact > DELTA) == name.startswith("advanced")
    generator = np.random.default_rng(20261121)
    count = crossing_count(EPSILON, bounds, runs=RUNS, generator=generator)
    low, high = interval(count, RUNS)
    assert low <= exact <= high
    # The runs alone tell the odometers from what is none.
    assert low > DELTA if name.startswith("advanced") else high < DELTA


def test_the_stopping_adversary_stops_at_the_first_crossing_of_its_bound() -> None:
    rounds, delta, constant = 60, 0.3, 0.9
    bound = rogers_bound(epsilon=Decimal("0.1"), delta=delta, rounds=rounds, constant=constant)
    drift = 0.1 * (math.exp(0.1) - 1) / (math.exp(0.1) + 1)
    spread = constant * 0.1 * math.sqrt(7 * math.log(math.log(rounds) / delta))
    assert bound(7) == pytest.approx(7 * drift + spread, rel=1e-13)
    adversary, generator = StoppingTimeAdversary("0.1", bound), np.random.default_rng(1)
    stopped, runs = 0, 2_000
    for _ in range(runs):
        view = adapt_param_comp(adversary, rounds=rounds, b=0, generator=generator)
        stopped += view.loss > bound(len(view.rounds)) + 1e-9
        before = np.cumsum([r.loss for r in view.rounds])[:-1]
        assert all(x <= bound(n) + 1e-9 for n, x in enumerate(before, 1))
    exact = crossing_probability(0.1, np.array([bound(n) for n in range(1, rounds + 1)]))
    low, high = interval(stopped, runs)
    assert low <= exact <= high
    assert exact > 0.05


def test_losses_drawn_many_rounds_at_once_have_the_law_of_single_rounds() -> None:
    generator = np.random.default_rng(3)
    bounds = np.array([0.35, 0.15, 0.25, math.inf, 0.45, 0.05, 0.45, 0.45])
    exact = crossing_probability(0.1, bounds)
    up = 1 / (1 + math.exp(-0.1))
    steps = np.where(generator.random((RUNS, len(bounds))) < up, 0.1, -0.1)
    by_round = (np.cumsum(steps, axis=1) > bounds + 1e-9).any(axis=1).sum()
    at_once = crossing_count(0.1, bounds, runs=RUNS, generator=generator)
    for count in (int(by_round), at_once):
        low, high = interval(count, RUNS)
        assert low <= exact <= high


def test_a_loss_on_the_boundary_does_not_count_as_a_crossing() -> None:
    # All up is on the boundary, never above it.
    assert crossing_probability(0.1, 0.1 * np.arange(1, 200)) == 0.0
    everywhere = crossing_probability(0.1, 0.1 * np.arange(1, 200) - 1e-6)
    assert everywhere == pytest.approx(1 / (1 + math.exp(-0.1)), rel=1e-12)
    assert crossing_probability(0.1, np.full(50, math.inf)) == 0.0
    count = crossing_count(0.1, np.full(50, math.inf), runs=99, generator=np.random.default_rng(0))
    assert count == 0
