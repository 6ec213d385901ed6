"""For each filter: policies to attack, what to attack them with, and how near it gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from scipy.optimize import minimize_scalar

from accountant import claims as c
from accountant.filters import FILTERS
from accountant.policy import Policy
from research.games.ledgers import FilterLedger, Offer, Totals
from research.games.optimal_stopping import Solution, solve
from research.games.payoffs import Curve, hockey_stick
from tests.accountant.filters.policies import POLICIES
from tests.research.games import menus as m
from tests.research.games.menus import Ending

CUTS = (-0.2, 0.5, 1.2)


@dataclass(frozen=True)
class Attack:
    """Adversaries who know a menu, against one policy.

    Attributes:
        policy: of the dataset under attack.
        offers: the menu; each may be asked for in both orders of the neighbours.
        endings: what may come last, as large as still fits.
        depth: the most requests before that.
        near: the part of the guaranteed delta that the best of them reaches at least.
        at: epsilon of the hockey-stick, where the guarantee is a rho and has none of its own.
    """

    policy: Policy
    offers: tuple[Offer, ...]
    endings: tuple[Ending, ...]
    depth: int
    near: float
    at: float | None = None

    @property
    def epsilon(self) -> float:
        """Where the hockey-stick is taken."""
        return float(FilterLedger(self.policy).guarantee.amount) if self.at is None else self.at

    def menu(self, *, swapped: bool | None = None) -> list[Offer]:
        """Return the offers in both orders of the neighbours, or in one of them."""
        turned = [offer.swapped() for offer in self.offers]
        if swapped is not None:
            return turned if swapped else list(self.offers)
        return [*self.offers, *[o for o in turned if o not in self.offers]]

    def last(self, ledger: FilterLedger, spent: Totals) -> list[Curve]:
        """Return the curves of what may come last."""
        return [ending.curves[rung] for ending, rung in self._endings(ledger, spent)]

    def last_log_moments(self, ledger: FilterLedger, spent: Totals, order: float) -> list[float]:
        """Return ln E e^{order L} of what may come last."""
        return [ending.log_moments[rung](order) for ending, rung in self._endings(ledger, spent)]

    def _endings(self, ledger: FilterLedger, spent: Totals) -> list[tuple[Ending, int]]:
        rungs = [(ending, ledger.maximum(spent, ending.claims)) for ending in self.endings]
        return [(ending, rung) for ending, rung in rungs if rung is not None]

    def solve(self, *, swapped: bool | None = None) -> Solution[Totals]:
        """Return the best of all strategies at the hockey-stick H_epsilon.

        Args:
            swapped: the neighbours of the menu stand in one order only.
        """
        ledger = FilterLedger(self.policy)
        menu = self.menu(swapped=swapped)
        return solve(
            ledger.start,
            lambda spent: ledger.moves(spent, menu),
            hockey_stick(self.epsilon, lambda spent: self.last(ledger, spent)),
            depth=self.depth,
        )


def tight_delta(rho: float, epsilon: float) -> float:
    """Return delta'(rho, epsilon) of docs/theory.md section 1, as a float."""

    def log_delta(log_less: float) -> float:
        less = math.exp(log_less)  # alpha - 1
        alpha = 1 + less
        return less * (alpha * rho - epsilon) + alpha * math.log(less / alpha) - log_less

    found = minimize_scalar(log_delta, bounds=(-12, 14), method="bounded")
    return min(1.0, math.exp(float(found.fun)))


def promised(policy: Policy, epsilon: float) -> float:
    """Return the delta that the policy's guarantee gives at epsilon."""
    guarantee = FilterLedger(policy).guarantee
    delta = float(guarantee.delta)
    if guarantee.name == "rho":
        return delta + (1 - delta) * tight_delta(float(guarantee.amount), epsilon)
    return delta if epsilon >= float(guarantee.amount) else 1.0


MIXED: Final = (
    m.pure("0.4"),
    m.laplace("0.3", (0.0, 0.2)),
    m.approximate("0.3", "0.01"),
    m.shame("0.02"),
)
WITH_GAUSSIAN: Final = (*MIXED, m.gaussian("0.2", CUTS))
WITH_ZCDP: Final = (
    m.zcdp_response("0.4"),
    m.shaming_gaussian("0.2", "0.01", CUTS),
    m.bounded_range("0.5", 0.3),
    m.shame("0.02"),
)
SMALL: Final = (m.pure("0.05"), m.pure("0.1"), m.gaussian("0.08", CUTS))
NO_DELTA: Final = (
    m.pure("0.4"),
    m.laplace("0.3", (0.0, 0.2)),
    m.gaussian("0.25", CUTS),
    m.zcdp_gaussian("0.2", (0.3,)),
    m.bounded_range("0.5", 0.3),
)
# Some with the interval's middle at 0, as randomized response has, and some aside.
RANGES: Final = (
    m.bounded_range("0.5", 0.25),
    m.bounded_range("0.5", 0.3),
    m.bounded_range("0.6", 0.1),
    m.gaussian("0.2", CUTS),
)
EX_POST: Final = (
    m.ex_post_response("0.3"),
    m.ex_post_response("0.2", "0.01"),
    m.ex_post_rare("0.9", 0.05),
)
ENDS: Final = (m.last_gaussian("4"), m.last_response("4"))
EX_POST_END: Final = m.last_response("4", c.ExPost)


def _policy(name: str, **fields: Any) -> Policy:
    return Policy(filter=name, **({"epsilon": "1", "delta": "0.1"} | fields))


ZCDP_RHO: Final = Policy(filter="zcdp", rho="0.2")
ZCDP_RHO_DELTA: Final = Policy(filter="zcdp", rho="0.2", delta="0.02")


def _many(name: str, near: float, **fields: Any) -> Attack:
    """Return hundreds of small rounds, then all that is left, against (1, 1e-6)."""
    ends = [m.last_gaussian("0.3")]
    if name != "gdp_residue":  # where no mechanism gains more than that Gaussian (P6)
        ends.append(m.last_response("1"))
    policy = _policy(name, delta="1e-6", **fields)
    return Attack(policy, (m.pure("0.01"),), tuple(ends), 600, near)


_OWN: Final[dict[str, tuple[Attack, ...]]] = {
    "basic": (Attack(_policy("basic", delta="0.02"), MIXED, ENDS, 5, 0.999), _many("basic", 0.0)),
    "advanced_2016": (
        Attack(_policy("advanced_2016", delta="0.3"), MIXED, ENDS, 5, 0.31),
        _many("advanced_2016", 0.0),
    ),
    "fully_adaptive": (
        Attack(_policy("fully_adaptive", delta_for_claims="0.02"), WITH_GAUSSIAN, ENDS, 4, 0.21),
        Attack(_policy("fully_adaptive", delta_for_claims="0.02"), WITH_ZCDP, ENDS, 4, 0.21),
        Attack(
            _policy("fully_adaptive", delta="0.05", delta_for_claims="0.04"), MIXED, ENDS, 4, 0.79
        ),
        _many("fully_adaptive", 0.002),
    ),
    "zcdp_tight": (
        Attack(_policy("zcdp_tight", delta_for_claims="0.02"), WITH_GAUSSIAN, ENDS, 4, 0.61),
        Attack(_policy("zcdp_tight", delta_for_claims="0.02"), WITH_ZCDP, ENDS, 4, 0.61),
        Attack(_policy("zcdp_tight", epsilon="0.5", delta="0.6"), NO_DELTA, ENDS, 4, 0.85),
        _many("zcdp_tight", 0.26),
    ),
    "zcdp": (
        Attack(ZCDP_RHO, NO_DELTA, ENDS, 4, 0.7, at=0.5),
        Attack(ZCDP_RHO_DELTA, WITH_GAUSSIAN, ENDS, 4, 0.63, at=1.0),
        Attack(ZCDP_RHO_DELTA, WITH_ZCDP, ENDS, 4, 0.82, at=0.2),
    ),
    "ex_post": (
        Attack(
            _policy("ex_post", delta="0.02"),
            (*EX_POST, m.ex_post_response("0.1", "0.02")),
            (EX_POST_END,),
            5,
            0.999,
        ),
    ),
    "split": (
        Attack(
            _policy("split", delta_for_claims="0.02", epsilon_ex_post="0.6", delta_ex_post="0.02"),
            (*WITH_GAUSSIAN[::2], *EX_POST),
            (*ENDS, EX_POST_END),
            5,
            0.43,
        ),
    ),
    "unified_brownian": (
        Attack(_policy("unified_brownian", delta_for_claims="0.02"), WITH_GAUSSIAN, ENDS, 4, 0.61),
        _many("unified_brownian", 0.26),
    ),
    "gdp_residue": (
        Attack(_policy("gdp_residue", delta_for_claims="0.02"), WITH_GAUSSIAN, ENDS, 4, 0.98),
        Attack(_policy("gdp_residue"), NO_DELTA[:3], ENDS, 4, 0.996),
        Attack(_policy("gdp_residue"), RANGES, ENDS, 4, 0.996),
        # Near epsilon 0 the step of bounded range leaves nothing unused (P11).
        Attack(
            _policy("gdp_residue", epsilon="0.001"),
            (m.bounded_range("0.4", 0.2), m.bounded_range("0.4", 0.26)),
            (m.last_gaussian("0.3"),),
            4,
            0.9999,
        ),
        # As many pure mechanisms as Gaussians of the same total variation.
        Attack(_policy("gdp_residue", outside=True), NO_DELTA[:3], ENDS, 4, 0.9),
        Attack(_policy("gdp_residue", outside=True), RANGES, ENDS, 4, 0.9),
        Attack(_policy("gdp_residue", delta="1e-6"), SMALL, (m.last_gaussian("0.3"),), 5, 0.999),
        _many("gdp_residue", 0.999),
    ),
    "optimal_homogeneous": (
        Attack(
            _policy("optimal_homogeneous", delta_for_claims="0.02", epsilon_each="0.47"),
            (m.pure("0.47"), *MIXED[1:], m.bounded_range("0.47", 0.25)),
            (m.last_response("0.47"),),
            4,
            0.96,
        ),
        Attack(
            _policy("optimal_homogeneous", delta="1e-6", epsilon_each="0.01"),
            (m.pure("0.01"), m.pure("0.004")),
            (m.last_response("0.01"),),
            600,
            0.96,
        ),
    ),
    "renyi": (
        Attack(_policy("renyi", order="4"), NO_DELTA, ENDS, 4, 0.94),
        Attack(_policy("renyi", order="12", delta="1e-3"), NO_DELTA, ENDS, 4, 0.32),
        _many("renyi", 0.62, order="22"),
    ),
    "renyi_weighted": (
        Attack(_policy("renyi_weighted", orders=("3", "8")), NO_DELTA, ENDS, 4, 0.49),
        _many("renyi_weighted", 0.1, orders=("16", "22", "40")),
    ),
    "renyi_mixture": (
        Attack(_policy("renyi_mixture", orders=("3", "8")), NO_DELTA, ENDS, 4, 0.93),
        Attack(_policy("renyi_mixture", orders=("3.5", "5", "9")), NO_DELTA, ENDS, 4, 0.95),
        _many("renyi_mixture", 0.52, orders=("16", "22", "40")),
    ),
}


def _standard(name: str) -> Attack:
    """Return an attack on any filter's sample policy; how near it gets, nobody has said yet."""
    policy = POLICIES[name]
    at = 1.0 if policy.epsilon is None else None
    return Attack(policy, (m.pure("0.2"), m.gaussian("0.2", CUTS)), ENDS, 4, 0.0, at=at)


ATTACKS: Final = {name: _OWN.get(name, (_standard(name),)) for name in FILTERS}
