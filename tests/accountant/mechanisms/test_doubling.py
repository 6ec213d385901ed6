"""The doubling baseline: fresh noise each round, and every round paid in full."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from accountant.claims import check_claim
from accountant.mechanisms.brownian import BrownianSession
from accountant.mechanisms.doubling import DoublingSession

LADDER = ("8", "4", "2", "1")


def test_rounds_are_independent_gaussians():
    rng = np.random.default_rng(3)
    session = DoublingSession(np.full(20_000, 5.0), sensitivity="1", generator=rng)
    rounds = np.array([session.show(t) for t in LADDER])
    for row, t in zip(rounds, LADDER, strict=True):
        assert stats.kstest(row, stats.norm(5, float(t) ** 0.5).cdf).pvalue > 1e-4
    apart = np.corrcoef(rounds)[np.triu_indices(len(LADDER), 1)]
    assert np.all(np.abs(apart) < 5 / 20_000**0.5)


def test_doubling_pays_for_every_round_and_brownian_only_for_the_last():
    rng = np.random.default_rng(4)
    fresh = DoublingSession(5.0, sensitivity="3", generator=rng)
    brownian = BrownianSession(5.0, sensitivity="3", generator=rng)
    paid = telescoped = Fraction(0)
    for variance in LADDER:
        check_claim(fresh.claim(variance))
        paid += fresh.claim(variance).rho()
        telescoped += brownian.claim(variance).rho()
        fresh.show(variance)
        brownian.show(variance)
    assert paid == sum(Fraction(9, 2 * int(t)) for t in LADDER)
    assert telescoped == Fraction(9, 2)
    assert paid / telescoped == Fraction(15, 8)


@pytest.mark.parametrize("variance", ["0", "-1"])
def test_a_round_needs_noise(variance):
    session = DoublingSession(0.0, sensitivity="1", generator=np.random.default_rng(1))
    with pytest.raises(ValueError, match="above 0"):
        session.show(variance)
