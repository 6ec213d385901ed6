"""Settling and voiding by the ledger's rules never gets an adversary beyond the guarantee."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest
from scipy.special import ndtr

from accountant.policy import Policy
from research.games.ledgers import FilterLedger
from tests.research.games import menus as m
from tests.research.games.exact_interval import interval
from tests.research.games.reservations import ReservationAttack, Session, state_left

ENDING: Final = m.last_gaussian("1.5")
SESSION: Final = Session(("40", "16", "8"), 0.3)


EX_POST: Final = (
    m.ex_post_rare("0.7", 0.05),
    m.ex_post_rare("0.7", 0.05).swapped(),
    m.ex_post_response("0.3", "0.01"),
)


def policy(name: str, **fields: str) -> Policy:
    return Policy(**({"filter": name, "epsilon": "1", "delta": "0.1", "odometers": ()} | fields))


def sessions(name: str, near: float) -> ReservationAttack:
    held = (SESSION, m.pure("0.3"))
    return ReservationAttack(policy(name), (m.pure("0.2"),), held, ENDING, 6, near)


def ex_post(near: float, name: str, **fields: str) -> ReservationAttack:
    offers = () if name == "ex_post" else (m.pure("0.2"),)
    return ReservationAttack(policy(name, **fields), offers, EX_POST, ENDING, 8, near)


ATTACKS: Final = {
    "unified_brownian": sessions("unified_brownian", 0.45),
    "zcdp_tight": sessions("zcdp_tight", 0.45),
    "fully_adaptive": sessions("fully_adaptive", 0.02),
    "gdp_residue": sessions("gdp_residue", 0.999),
    "basic, ex post": ex_post(0.99, "basic", delta="0.02"),
    "ex_post": ex_post(0.99, "ex_post", delta="0.02"),
    "split": ex_post(0.25, "split", epsilon_ex_post="0.8", delta_ex_post="0.02"),
    "zcdp_tight, ex post": ex_post(0.53, "zcdp_tight", delta_for_claims="0.02"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_reserving_settling_and_voiding_stay_within_the_guarantee(name: str) -> None:
    attack = ATTACKS[name]
    delta = float(FilterLedger(attack.policy).guarantee.delta)
    solution = attack.solve()
    assert attack.near * delta <= solution.value <= delta * (1 + 1e-12)
    generator = np.random.default_rng(20261121)
    gained = solution.simulate(100_000, generator)
    count = int((generator.random(len(gained)) < gained).sum())
    low, high = interval(count, len(gained))
    assert low <= solution.value <= high


class TestRefundingTheResidueCost:
    """docs/theory.md section 3: a cost charged by the state is never returned to another."""

    POLICY = Policy(filter="gdp_residue", epsilon="0.5", delta="0.05", odometers=())

    def attack(self, *, as_found: bool) -> ReservationAttack:
        full = state_left(self.POLICY)
        # 0.8 of the largest epsilon that fits at all, then nearly all that it leaves of m.
        maximum = math.log(ndtr(full / 2) / ndtr(-full / 2))
        pure = m.pure(f"{0.8 * maximum:.6f}")
        rest = 0.999 * state_left(self.POLICY, pure)
        gaussian = m.gaussian(f"{rest:.9f}", list(np.linspace(-3, 4, 40) + rest / 2))
        ending = m.last_gaussian("0.7")
        return ReservationAttack(self.POLICY, (gaussian,), (pure,), ending, 3, 0.0, as_found)

    def test_refunding_the_residue_cost_gains_an_adversary_1_07_delta(self) -> None:
        assert self.attack(as_found=True).solve().value / 0.05 == pytest.approx(1.073, abs=0.002)

    def test_a_refund_of_a_claim_charged_as_a_gaussian_stays_within_delta(self) -> None:
        assert 0.95 < self.attack(as_found=False).solve().value / 0.05 <= 1
