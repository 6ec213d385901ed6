"""Generations within a lifetime: an exact adversary chooses when to renew, by what was answered.

The first generation runs a Gaussian. Then the adversary lets it use up its budget, or renews it and
asks the next one. Charged at its ceiling, a generation leaves the lifetime as it was promised;
charged at what it used, the better of both choices at each answer has 1.87 delta.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from accountant.policy import Policy, resolve
from accountant.policy.lifetime import Lifetime, first_generation, next_generation
from research.games.pairs import Pair, coarsened_gaussian, randomized_response
from tests.research.games.rules_of_the_past import Names, composed, worst

DELTA: Final = 1e-3
USED, CEILING, NEXT = 1.0, 4.0, 3.0
FIRST: Final = resolve(Policy(filter="gdp_residue", epsilon="4", delta="1e-3"))
SECOND: Final = resolve(Policy(filter="basic", epsilon="3"))


def mu_of(epsilon: float) -> float:
    """Return the mu of the Gaussian that is exactly (epsilon, DELTA)-DP."""

    def excess(mu: float) -> float:
        tail = norm.cdf(-mu / 2 - epsilon / mu)
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * tail - DELTA)

    return float(brentq(excess, 1e-3, 30))


def gaussian(mu: float) -> Pair:
    return coarsened_gaussian(mu, np.linspace(-4 - mu, 4 + mu, 161).tolist())


def menu() -> dict[str, Pair]:
    begun = mu_of(USED)
    rest = math.sqrt(mu_of(CEILING) ** 2 - begun**2)
    next_ = randomized_response(NEXT)
    return {"begun": gaussian(begun), "rest": gaussian(rest), "next": next_}


def admits_within(lifetime: Lifetime, past: Names) -> bool:
    """Tell whether a ledger with a lifetime admits what ran, in one generation or in two."""
    if past in {("begun",), ("begun", "rest")}:
        return True
    stored = first_generation(lifetime, "first", FIRST)
    return past == ("begun", "next") and next_generation(stored, SECOND) is not None


def test_a_generation_charged_at_its_ceiling_keeps_the_lifetime() -> None:
    small, large = Lifetime(epsilon="4", delta="1e-3"), Lifetime(epsilon="7", delta="1e-3")
    assert not admits_within(small, ("begun", "next"))
    assert admits_within(large, ("begun", "next"))
    for lifetime in (small, large):
        found = worst(menu(), partial(admits_within, lifetime), float(lifetime.amount))
        assert found <= DELTA * (1 + 1e-9)


def test_either_course_fixed_in_advance_has_at_most_delta() -> None:
    runs = menu()
    for second in ("rest", "next"):
        assert composed([runs["begun"], runs[second]], CEILING) <= DELTA * (1 + 1e-9)


def test_a_generation_charged_at_what_it_used_has_1_87_delta() -> None:
    assert USED + NEXT == CEILING  # what such a rule adds up
    allowed = {("begun",), ("begun", "rest"), ("begun", "next")}
    found = worst(menu(), allowed.__contains__, CEILING) / DELTA
    assert found == pytest.approx(1.874, abs=2e-3)
