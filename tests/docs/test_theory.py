"""What docs/theory.md says was checked rather than proved."""

from __future__ import annotations

import math
import re
from pathlib import Path

from mpmath import exp, log, mp, mpf
from scipy.optimize import minimize_scalar

from accountant.odometers.one_sided_mixture import OneSidedMixture
from research.figures import odometers as o

OPENS = ("docs/theory.md",)


def chance_to_cross(epsilon: float, bounds: list[float]) -> float:
    """Return the probability that the loss of n RR_epsilon ever exceeds bounds[n - 1]."""
    up = math.exp(epsilon) / (1 + math.exp(epsilon))
    walk, crossed = {0: 1.0}, 0.0  # law of (up - down) of the paths that have not crossed
    for bound in bounds:
        after: dict[int, float] = {}
        for place, mass in walk.items():
            for step, chance in ((1, up), (-1, 1 - up)):
                after[place + step] = after.get(place + step, 0.0) + mass * chance
        crossed += sum(mass for place, mass in after.items() if place * epsilon > bound)
        walk = {place: mass for place, mass in after.items() if place * epsilon <= bound}
    return crossed


def test_no_order_of_two_laplace_distributions_exceeds_the_stated_rho():
    """Section 1: D_alpha <= alpha (epsilon + e^-epsilon - 1) on a grid of alpha and epsilon."""
    with mp.workdps(120):  # the difference below loses up to 70 digits
        for tenths in range(-120, 31, 5):
            epsilon = mpf(10) ** (mpf(tenths) / 10)
            rho = epsilon + exp(-epsilon) - 1
            for j in range(-60, 61, 3):
                alpha = 1 + mpf(10) ** (mpf(j) / 10)
                weight = alpha / (2 * alpha - 1)
                lost = (alpha - 1) * epsilon
                moments = lost + log(weight + (1 - weight) * exp(-alpha * epsilon - lost))
                assert moments / (alpha - 1) <= alpha * rho


def test_the_mean_loss_of_randomized_response_is_the_stated_rho():
    """P1: no rho below epsilon tanh(epsilon/2) would do."""
    with mp.workdps(60):
        for epsilon in map(mpf, ("1e-6", "0.1", "1", "10")):
            high = exp(epsilon) / (1 + exp(epsilon))
            mean = high * epsilon - (1 - high) * epsilon
            assert abs(mean - epsilon * mp.tanh(epsilon / 2)) <= mpf("1e-50") * epsilon


def test_the_filters_formula_at_running_totals_is_no_bound():
    """Section 3: over 487 rounds of epsilon = 0.01 it is crossed with probability 195 delta."""
    delta, epsilon, rounds = 1e-6, 0.01, 487
    rho = epsilon * math.tanh(epsilon / 2)

    def formula(total: float) -> float:
        def bound(log_order: float) -> float:
            less = math.exp(log_order)  # alpha - 1
            alpha = 1 + less
            logs = -math.log(delta) + alpha * math.log(less / alpha) - math.log(less)
            return alpha * total + logs / less

        return float(minimize_scalar(bound, bounds=(-5, 12), method="bounded").fun)

    assert formula(rounds * rho) <= 1 < formula((rounds + 1) * rho)
    crossed = chance_to_cross(epsilon, [formula(n * rho) for n in range(1, rounds + 1)])
    assert 190 * delta < crossed < 200 * delta


def test_the_odometer_is_a_bound_on_the_same_walk():
    """Section 4: P(some n: loss > U) <= delta', exactly computed, and not far below it."""
    delta, epsilon, rounds = 1e-2, 0.05, 400
    boundary = OneSidedMixture(delta=str(delta), r="0.2").boundary()
    rho = epsilon * math.tanh(epsilon / 2)
    crossed = chance_to_cross(epsilon, [boundary(2 * n * rho) for n in range(1, rounds + 1)])
    assert delta / 20 < crossed <= delta


def test_odometer_readings_equal_those_of_the_text_on_whitehouse_2023_fig_3():
    """Section 4: V = 1, delta' = 1e-6, and the figure's parameters."""
    text = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"^.*At V = 1, δ' = 1e-6, y = 0\.5.*$", text, re.MULTILINE)
    for odometer, name in (
        (o.LINEAR, "linear"),
        (o.MIXTURE, "mixture"),
        (o.ONE_SIDED, "one_sided_mixture"),
        (o.STITCHED, "stitched"),
    ):
        assert f"{name} {o.over_time(odometer, (1.0,)).y[0]:.4f}" in said
    last = range(100, 101)
    assert f"Thm 6.5 {o.over_counts(o.ADVANCED_2016_N, last).y[0]:.4f}" in said
    assert f"no odometer, {o.strong(last).y[0]:.4f}" in said


def test_the_union_over_granularities_holds_with_four_times_the_step():
    """Section 4: Rogers 2016 Thm 6.5, for V between beta and 4 beta."""
    for i in range(301):
        ratio = 1 + i / 100
        factor = 2 * (1 + 1 / ratio) * (1 + math.log1p(ratio) / 2)
        assert factor <= 4 * (1 + math.log(2) / 2) + 1e-12 < 4 * (1 + math.log(3) / 2)
    for n in range(4, 5000):
        steps = math.ceil(math.log2(n))
        assert 4**steps >= n**2
        assert steps <= 2 * math.log2(n)
