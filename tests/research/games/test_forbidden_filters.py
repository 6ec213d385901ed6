"""What is no filter is caught: the best adversary exceeds the delta it would promise.

The same optimiser finds every real filter within its delta (test_filter_coverage).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri

from accountant import claims as c
from accountant.amounts import UNIT
from accountant.policy import Policy
from research.games import curves
from research.games.ledgers import FilterLedger, Offer, Totals
from research.games.optimal_stopping import Move, solve
from research.games.pairs import (
    coarsened_gaussian,
    randomized_response,
)
from research.games.payoffs import Curve, crossing, hockey_stick, hockey_stick_at
from tests.research.games import menus as m


class TestAFiltersFormulaAtTheCurrentTotals:
    """zcdp_tight, (1, 1e-6), rounds of pure 0.01: 487 fit."""

    DELTA = 1e-6

    def position(self, rho: float) -> float:
        """Return the epsilon of the tight conversion at what is spent."""
        if not rho:
            return 0.0

        def bound(log_order: float) -> float:
            less = math.exp(log_order)  # alpha - 1
            alpha = 1 + less
            logs = -math.log(self.DELTA) + alpha * math.log(less / alpha) - math.log(less)
            return alpha * rho + logs / less

        return max(0.0, float(minimize_scalar(bound, bounds=(-5, 12), method="bounded").fun))

    def value(self, attempt: str) -> float:
        ledger = FilterLedger(Policy(filter="zcdp_tight", epsilon="1", delta="1e-6"))
        offers = (m.pure("0.01"),)
        at = cache(lambda spent: self.position(spent[0] / UNIT))
        payoffs = {
            "crosses": crossing(at),
            "stops at will": hockey_stick_at(at),
            "is held to the policy": hockey_stick(1.0),
        }
        solution = solve(
            ledger.start, lambda spent: ledger.moves(spent, offers), payoffs[attempt], depth=600
        )
        assert solution.nodes == 488 * 489 // 2
        return solution.value / self.DELTA

    def test_the_formula_at_current_totals_is_crossed_195_times_too_often(self) -> None:
        assert self.value("crosses") == pytest.approx(195, abs=0.2)

    def test_stopping_at_will_has_1_85_times_its_delta(self) -> None:
        assert self.value("stops at will") == pytest.approx(1.85, abs=0.005)

    def test_the_formula_with_the_policys_constant_stays_within_delta(self) -> None:
        assert 0.2 < self.value("is held to the policy") < 0.201


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(curves.gaussian(mu, np.array([epsilon]))[0])


@pytest.mark.parametrize(
    ("delta", "each", "minimum"), [(1e-6, 0.02, 1.03), (1e-3, 0.05, 1.19), (0.1, 0.1, 1.27)]
)
def test_squares_of_pure_epsilons_are_no_squares_of_mu(
    delta: float, each: float, minimum: float
) -> None:
    """Sum epsilon^2 <= mu^2, where mu-GDP has (1, delta): many small rounds, then what is left."""
    mu = float(brentq(lambda x: gaussian_delta(x, 1.0) - delta, 1e-3, 20))
    pair = randomized_response(each)

    def value(cost: Callable[[float], float]) -> float:
        """Return the best H_1 in units of delta, where epsilon costs `cost(epsilon)` of mu^2."""

        def moves(rounds: int) -> list[Move[int]]:
            fits = (rounds + 1) * cost(each) <= mu**2
            return [Move("response", pair, (rounds + 1,) * 2)] if fits else []

        def last(rounds: int) -> list[Curve]:
            left = mu**2 - rounds * cost(each)
            maximum = float(brentq(lambda e: cost(e) - left, 0, 20))
            return [lambda x: curves.randomized_response(maximum, 0.0, x)]

        return solve(0, moves, hockey_stick(1.0, last), depth=1000).value / delta

    assert value(lambda epsilon: epsilon**2) > minimum
    # What a pure claim may be charged: the square of mu(epsilon) of docs/theory.md section 1.
    assert value(lambda e: float(2 * ndtri(1 / (1 + math.exp(-e)))) ** 2) <= 1


@pytest.mark.parametrize(
    ("charged", "minimum", "maximum"),
    [
        ("0.4", 0.9999, 1.0),
        # A thousandth off the range; then a hundredth off the cost, which is about its square.
        ("0.3996", 1.0009, 1.001),
        ("0.398", 1.004, 1.005),
    ],
)
def test_bounded_range_charged_slightly_less_than_its_eta_exceeds_delta(
    charged: str, minimum: float, maximum: float
) -> None:
    """docs/theory.md P11: some adversary with loss +-0.2 uses all that the step leaves."""
    ledger = FilterLedger(Policy(filter="gdp_residue", epsilon="0.001", delta="0.1"))
    pairs = [m.bounded_range("0.4", high).pair for high in (0.2, 0.26, 0.1)]
    offers = [Offer(c.BoundedRange(charged), pair) for pair in pairs]
    end = m.last_gaussian("0.3")

    def last(spent: Totals) -> list[Curve]:
        rung = ledger.maximum(spent, end.claims)
        return [] if rung is None else [end.curves[rung]]

    found = solve(
        ledger.start, lambda spent: ledger.moves(spent, offers), hockey_stick(0.001, last), depth=4
    )
    assert minimum <= found.value / 0.1 <= maximum


class TestSeveralFiltersWithoutDividingDelta:
    """Admit while one of two filters does, each with the whole of delta (section 7)."""

    DELTA = "1e-6"

    def value(self, share: str) -> float:
        """Return the best H_1 in units of delta, where each filter has a share of it."""
        shame = f"{Decimal(share) * Decimal('0.99'):f}"
        policies = (
            Policy(filter="fully_adaptive", epsilon="1", delta=share, delta_for_claims=shame),
            Policy(filter="gdp_residue", epsilon="1", delta=share),
        )
        ledgers = [FilterLedger(policy) for policy in policies]
        offers = [m.gaussian("0.12", [x / 4 for x in range(-4, 20)]), m.shame(shame)]
        gaussians = m.last_gaussian("0.3")

        def moves(state: tuple[Totals | None, ...]) -> list[Move[tuple[Totals | None, ...]]]:
            found = []
            for offer in offers:
                after = tuple(
                    # A filter that has once refused what ran has lost count for good.
                    None if spent is None else ledger.charge(spent, offer.claim)
                    for ledger, spent in zip(ledgers, state, strict=True)
                )
                if any(after):
                    found.append(Move(offer.name, offer.pair, (after,) * len(offer.pair.p)))
            return found

        def last(state: tuple[Totals | None, ...]) -> list[Curve]:
            rungs = [
                ledger.maximum(spent, gaussians.claims)
                for ledger, spent in zip(ledgers, state, strict=True)
                if spent is not None
            ]
            return [gaussians.curves[rung] for rung in rungs if rung is not None]

        start = tuple(ledger.start for ledger in ledgers)
        solution = solve(start, moves, hockey_stick(1.0, last), depth=4)
        return solution.value / float(self.DELTA)

    def test_two_filters_with_undivided_delta_reach_1_75_delta(self) -> None:
        assert self.value("1e-6") > 1.75

    def test_two_filters_with_divided_delta_stay_within_delta(self) -> None:
        assert 0.88 < self.value("5e-7") <= 1


def test_a_filter_that_checks_before_it_adds_the_request_exceeds_delta() -> None:
    """The infimum over n has to include the first mechanism, and each that is asked for."""
    ledger = FilterLedger(Policy(filter="zcdp_tight", epsilon="1", delta="0.01"))
    offer = m.pure("4")
    assert ledger.moves(ledger.start, [offer]) == []

    def moves(spent: Totals) -> list[Move[Totals]]:
        within = spent[0] <= ledger.capacity[0]
        return [Move("pure", offer.pair, ((spent[0] + 2 * UNIT, 0),) * 2)] if within else []

    assert solve(ledger.start, moves, hockey_stick(1.0), depth=2).value > 90 * 0.01


def test_the_tight_filters_bound_the_hockey_stick_and_not_the_chance_of_a_large_loss() -> None:
    """No error of theirs: (epsilon, delta)-DP is the hockey-stick (docs/theory.md section 7)."""
    delta = 1e-6
    mu = float(brentq(lambda x: gaussian_delta(x, 1.0) - delta, 1e-3, 20))
    fine = coarsened_gaussian(mu, list(np.linspace(0.2, 6, 600)))
    assert fine.hockey_stick(1.0) <= delta
    assert fine.chance_above(1.0) > 4 * delta
