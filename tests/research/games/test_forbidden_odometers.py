"""What is no odometer is caught: each is crossed more often than its delta allows.

The same programs find every real odometer below its delta (test_odometer_coverage).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from accountant.amounts import UNIT
from accountant.claims import Probabilistic, check_claim
from accountant.claims.price import price
from accountant.conversions.probabilistic import probabilistic_delta
from accountant.filters import FILTERS
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.policy import Policy, parse_budget
from research.games.optimal_stopping import Move, solve
from research.games.pairs import FloatArray, randomized_response, symmetric_atom
from research.games.payoffs import crossing
from research.games.stopping_time import crossing_probability
from tests.research.games import menus as m
from tests.research.games.odometer_attacks import OdometerAttack

DELTA = 0.05


def v_after(rounds: int, epsilon: float) -> FloatArray:
    return np.arange(1, rounds + 1) * epsilon**2


def test_the_posters_odometers_lack_half_of_v() -> None:
    rounds, epsilon = 2_000, 0.1
    v = v_after(rounds, epsilon)
    r = float(v[-1]) / 20
    moved = (v + r) / r
    printed = {
        "one_sided": np.sqrt(2 * (v + r) * np.log(np.sqrt(moved) / (2 * DELTA) + 1)),
        "two_sided": np.sqrt(2 * (v + r) * np.log(np.sqrt(moved) / DELTA)),
    }
    corrected = {
        "one_sided": OneSidedMixture(str(DELTA), f"{r:.17g}").boundary(),
        "two_sided": Mixture(str(DELTA), f"{r:.17g}").boundary(),
    }
    for name, bounds in printed.items():
        # Half of V is all that the two differ by, and it decides.
        ours = np.array([corrected[name](x) for x in v])
        assert ours == pytest.approx(bounds + v / 2, rel=1e-10)
        assert crossing_probability(epsilon, bounds) > 6 * DELTA
        assert crossing_probability(epsilon, ours) < DELTA


def test_the_smallest_of_several_odometers_needs_a_share_of_delta_for_each() -> None:
    rounds, epsilon = 2_000, 0.05
    v = v_after(rounds, epsilon)
    lines = []
    for y in ("0.05", "0.2", "0.8", "3"):
        boundary = Linear(str(DELTA), y).boundary()
        lines.append(np.array([boundary(x) for x in v]))
    assert all(crossing_probability(epsilon, line) < DELTA for line in lines)
    smallest = crossing_probability(epsilon, np.min(lines, axis=0))
    assert 1.98 * DELTA < smallest < 4 * DELTA


def test_the_exact_optimum_for_parameters_fixed_in_advance_is_no_odometer() -> None:
    """A privacy-loss accountant answers for one number of rounds, named before the first."""
    epsilon, rounds = 0.1, 300
    up = 1 / (1 + math.exp(-epsilon))

    def optimum(n: int) -> float:
        losses = (2 * np.arange(n + 1) - n) * epsilon
        law = binom.pmf(np.arange(n + 1), n, up)

        def excess(x: float) -> float:
            return float((law * np.maximum(0, -np.expm1(np.minimum(x - losses, 0)))).sum()) - DELTA

        return 0.0 if excess(0) <= 0 else float(brentq(excess, 0, n * epsilon, xtol=1e-12))

    assert (
        crossing_probability(epsilon, np.array([optimum(n) for n in range(1, rounds + 1)]))
        > 16 * DELTA
    )


class TestClaimsWithDelta:
    """epsilon = 1e-8 and a thousand claims: the loss drifts by delta, which no V accounts for."""

    EPSILON, DELTA, ROUNDS = "1e-8", "1e-9", 1_000

    def crossing(self, bound: Callable[[int], float]) -> float:
        offer = m.skewed(self.EPSILON, self.DELTA)

        def moves(n: int) -> list[Move[int]]:
            return [Move("skewed", offer.pair, (n + 1,) * 3)]

        payoff = crossing(lambda n: bound(n) if n else math.inf, tie=1e-15)
        return solve(0, moves, payoff, depth=self.ROUNDS, decimals=16).value

    def test_the_printed_odometer_is_crossed_14_000_times_too_often(self) -> None:
        v = self.ROUNDS * Decimal(self.EPSILON) ** 2
        boundary = Linear("1e-6", f"{v:f}").boundary()
        crossed = self.crossing(lambda n: boundary(n * float(self.EPSILON) ** 2))
        assert crossed == pytest.approx(0.0289, abs=5e-5)
        assert crossed > 14_000 * 2e-6

    def test_the_odometer_with_the_loss_shift_is_not_crossed_too_often(self) -> None:
        attack = OdometerAttack(
            Linear("1e-6", f"{self.ROUNDS * Decimal(self.EPSILON) ** 2:f}"),
            (m.skewed(self.EPSILON, self.DELTA),),
            self.ROUNDS,
            0.0,
            "1e-6",
        )
        assert attack.failure == pytest.approx(2e-6)
        claim = check_claim(Probabilistic(self.EPSILON, self.DELTA))
        shift = price(claim, ("loss_shift",)).amounts[0] / UNIT
        assert shift == pytest.approx(1e-9, rel=1e-6)
        boundary = attack.odometer.boundary()
        shifted = self.crossing(lambda n: boundary(n * float(self.EPSILON) ** 2) + n * shift)
        assert 0 < shifted < attack.failure


def test_the_concentration_lemma_as_printed_gives_no_odometer() -> None:
    """exp(-b^2/a) instead of exp(-b^2/(2a)): twice the ln(1/delta) that there is."""
    rounds, epsilon = 2_000, 0.05
    v, log = v_after(rounds, epsilon), math.log(1 / DELTA)
    y = float(v[-1]) / 2
    printed = math.sqrt(y * log) / 2 + math.sqrt(log / y) / 2 * v + v / 2
    assert crossing_probability(epsilon, printed) > 3 * DELTA
    corrected = math.sqrt(2 * y * log) / 2 + math.sqrt(2 * log / y) / 2 * v + v / 2
    assert crossing_probability(epsilon, corrected) < DELTA


def test_y_star_as_printed_is_valid_but_tuned_to_half_of_epsilon() -> None:
    """The line of y* has to read epsilon where the filter is full (Whitehouse 2023 Thm 2(1))."""
    epsilon, log = 1.0, math.log(1e6)
    policy = Policy(filter="fully_adaptive", epsilon="1", delta="1e-6")
    kind = FILTERS["fully_adaptive"]()
    full = float(kind.capacity(parse_budget(policy))[0]) / UNIT

    def star(target: float) -> float:
        return (-math.sqrt(2 * log) + math.sqrt(2 * log + target)) ** 2

    readings = [Linear("1e-6", f"{star(x):.17g}").boundary()(full) for x in (2 * epsilon, epsilon)]
    assert readings[0] == pytest.approx(epsilon, rel=1e-9)
    assert readings[1] > 1.2 * epsilon
    assert star(2 * epsilon) == pytest.approx(full, rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4"])
def test_the_printed_conversions_to_a_bound_on_the_loss_are_too_small(epsilon: str) -> None:
    """(epsilon, delta)-DP mechanisms exceed 2 epsilon more often than Lemma 2.3 and 1 say."""
    e, delta = Decimal(epsilon), Decimal("0.001")
    pair = symmetric_atom(2 * float(e) + 1e-9, float(delta) / -math.expm1(-float(e) - 1e-9))
    assert pair.hockey_stick(float(e)) == pytest.approx(float(delta), rel=1e-9)
    beyond = sum(p for p, loss in zip(pair.p, pair.losses, strict=True) if abs(loss) > 2 * float(e))
    rogers = 2 * float(delta) * math.exp(-float(e))
    whitehouse = rogers / float(e)
    assert beyond > min(rogers, whitehouse)
    if float(e) >= 1:
        assert beyond > max(rogers, whitehouse)
    ours = probabilistic_delta(epsilon=Fraction(epsilon), delta=Fraction("0.001"))
    assert ours is not None
    assert beyond < ours


def test_the_same_adversary_rarely_crosses_the_corrected_odometer() -> None:
    """Whatever stops when the poster's odometer is crossed seldom crosses the corrected one."""
    boundary = OneSidedMixture(str(DELTA), "1").boundary()

    def moves(n: int) -> list[Move[int]]:
        return [Move("rr", randomized_response(0.2), (n + 1,) * 2)]

    found = solve(0, moves, crossing(lambda n: boundary(n * 0.04)), depth=500)
    assert 0.2 * DELTA < found.value < DELTA
