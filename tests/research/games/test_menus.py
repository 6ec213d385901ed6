"""Adversaries are honest: each mechanism of a menu obeys its claim, in both orders.

A coverage test is worth nothing if the adversary claims too little, and little if it claims
too much; so each mechanism is held to the promise that the ledger reads off its claim.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from accountant.claims.promises import promise
from research.games import curves
from research.games.ledgers import Offer
from research.games.pairs import FloatArray, Pair
from tests.every_case import check_each
from tests.research.games import menus as m
from tests.research.games.coverage import ATTACKS
from tests.research.games.odometer_attacks import ODOMETER_ATTACKS

ORDERS = (0.01, 0.3, 1.0, 2.0, 5.0, 30.0, 200.0)
EPSILONS = np.linspace(-3.0, 3.0, 61)
ULPS = 1e-12


def offers() -> list[Offer]:
    found = {o.claim: o for attacks in ATTACKS.values() for a in attacks for o in a.offers}
    found |= {
        o.claim: o for attacks in ODOMETER_ATTACKS.values() for a in attacks for o in a.offers
    }
    return list(found.values())


def hockey_sticks(pair: Pair) -> FloatArray:
    return np.array([pair.hockey_stick(float(x)) for x in EPSILONS])


def test_each_mechanism_obeys_its_claim() -> None:
    def check_case(offer: Offer) -> None:
        worth = promise(offer.claim)
        delta = float(worth.delta)
        for pair in (offer.pair, offer.pair.swapped()):
            if worth.epsilon is not None:
                assert pair.hockey_stick(float(worth.epsilon)) <= delta + ULPS
            if worth.mu_squared is not None:
                curve = curves.gaussian(math.sqrt(worth.mu_squared), EPSILONS)
                assert (hockey_sticks(pair) <= curve + ULPS).all()
            if worth.rho is not None and not delta:
                for order in ORDERS:
                    maximum = order * (order + 1) * float(worth.rho)
                    assert pair.log_moment(order) <= maximum * (1 + ULPS)
            if worth.renyi is not None:
                for order in ORDERS:
                    divergence = worth.renyi(1 + Decimal(str(order)))
                    if divergence is not None:
                        assert (
                            pair.log_moment(order) / order <= float(divergence) * (1 + ULPS) + ULPS
                        )
            if worth.loss is not None and worth.loss.epsilon is not None:
                maximum = float(worth.loss.epsilon) + ULPS
                beyond = sum(
                    p
                    for p, x in zip(pair.p, pair.losses, strict=True)
                    if not abs(x) <= maximum and p
                )
                assert beyond <= float(worth.loss.delta) + ULPS

    check_each(check_case, offers())


@pytest.mark.parametrize("offer", [m.pure("0.4"), m.zcdp_response("0.4"), m.skewed("0.1", "0.004")])
def test_no_mechanism_of_a_menu_claims_more_than_it_needs(offer: Offer) -> None:
    worth = promise(offer.claim)
    if worth.delta:
        # All of delta is spent, and all of the loss that is left.
        assert offer.pair.swapped().chance_above(float(worth.epsilon or 0)) == float(worth.delta)
    else:
        # Order 0: the mean loss is rho exactly (docs/theory.md P1).
        assert offer.pair.log_moment(1e-7) / 1e-7 == pytest.approx(float(worth.rho or 0), rel=1e-5)


@pytest.mark.parametrize("ending", [m.last_gaussian("4"), m.last_response("4")])
def test_the_gain_of_a_last_mechanism_grows_with_its_claim(ending: m.Ending) -> None:
    x = np.array([0.5])
    values = [float(curve(x)[0]) for curve in ending.curves[::100]]
    assert values == sorted(values)
    assert len(ending.claims) == len(ending.curves) == len(ending.log_moments)
