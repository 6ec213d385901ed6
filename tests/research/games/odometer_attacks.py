"""For each odometer: what to attack it with, and how near that gets to its delta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from accountant.amounts import units_down
from accountant.odometers import AnyOdometer
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.basic import Basic
from accountant.odometers.combined import Combined
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from research.games.ledgers import OdometerLedger, Offer, Totals
from research.games.optimal_stopping import Move, Solution, solve
from research.games.payoffs import crossing
from tests.research.games import menus as m

CUTS = (-0.4, 0.6)


@dataclass(frozen=True)
class OdometerAttack:
    """Adversaries who know a menu and stop at will, against one odometer.

    Attributes:
        delta_for_claims: delta'', what the policy lets claims' deltas add up to.
        offers: the menu; each may be asked for in both orders of the neighbours.
        depth: the most requests.
        near: the part of delta' + delta'' that the best of them reaches at least.
        ex_post: ex-post claims pay what they settle at.
    """

    odometer: AnyOdometer
    offers: tuple[Offer, ...]
    depth: int
    near: float
    delta_for_claims: str = "0"
    ex_post: bool = False

    @property
    def failure(self) -> float:
        """delta' + delta''."""
        return float(self.odometer.failure() + Decimal(self.delta_for_claims))

    def solve(self, *, swapped: bool = False) -> Solution[Totals]:
        """Return the best of all strategies at making the loss exceed the reading.

        Args:
            swapped: each mechanism of the menu has its neighbours in the other order only.
        """
        ledger = OdometerLedger(
            self.odometer, delta_for_claims=self.delta_for_claims, ex_post=self.ex_post
        )
        menu = [offer.swapped() if swapped else offer for offer in self.offers]
        if not swapped:
            # Randomized response in the other order is itself.
            menu += [x.swapped() for x in menu if x.pair.losses[0] != -x.pair.losses[-1]]
        limit = units_down(Decimal(self.delta_for_claims))
        deltas = [i for i, name in enumerate(ledger.sums) if name.endswith("_delta")]

        def moves(totals: Totals) -> list[Move[Totals]]:
            if sum(totals[i] for i in deltas) > limit:
                # Nothing is ever above infinity: the adversary has lost.
                assert ledger.reading(totals) == math.inf
                return []
            return ledger.moves(totals, menu)

        return solve(ledger.start, moves, crossing(ledger.reading), depth=self.depth)


LONG: Final = (m.pure("0.2"), m.pure("0.1"))
FINE: Final = (m.pure("0.05"),)
WITH_DELTA: Final = (m.pure("0.2"), m.skewed("0.1", "0.004"), m.shame("0.004"))
MIXED: Final = (
    m.pure("0.5"),
    m.gaussian("0.6", CUTS),
    m.zcdp_gaussian("0.8", (0.4,)),
    m.laplace("0.7", (0.35,)),
    m.bounded_range("1", 0.45),
)
CONVERTED: Final = (
    m.approximate("0.2", "0.001"),
    m.beyond("0.25", "0.002"),
    m.skewed("0.3", "0.01"),
    m.laplace("0.4", (0.2,)),
)
EX_POST: Final = (m.pure("0.2"), m.ex_post_response("0.2", "0.004"), m.ex_post_rare("0.9", 0.05))


def _all(odometer: AnyOdometer, *near: float) -> tuple[OdometerAttack, ...]:
    """Return the attacks on an odometer, with the part of its delta that each reaches."""
    return (
        OdometerAttack(odometer, LONG, 60, near[0]),
        OdometerAttack(odometer, WITH_DELTA, 30, near[1], "0.012"),
        OdometerAttack(odometer, MIXED, 5, near[2]),
        OdometerAttack(odometer, CONVERTED, 6, near[3], "0.03"),
        OdometerAttack(odometer, EX_POST, 8, near[4], "0.012", ex_post=True),
        *(OdometerAttack(odometer, FINE, 800, x) for x in near[5:]),
    )


ODOMETER_ATTACKS: Final[dict[str, tuple[OdometerAttack, ...]]] = {
    "basic": _all(Basic(), 0, 0.99, 0, 0.98, 0.99),
    "advanced_2016": _all(Advanced2016("0.35", "0.4"), 0.06, 0.09, 0, 0.14, 0.06),
    "advanced_2016_n": _all(Advanced2016N("0.35", 4), 2e-4, 0.06, 0, 0.14, 0.06),
    "linear": _all(Linear("0.1", "0.8"), 0.76, 0.59, 0, 0.22, 0.17, 0.87),
    "mixture": _all(Mixture("0.2", "0.2"), 0.21, 0.18, 0, 0.12, 0.05),
    "one_sided_mixture": _all(OneSidedMixture("0.2", "0.2"), 0.43, 0.33, 0.02, 0.12, 0.12, 0.49),
    "one_sided_mixture_exact": _all(
        OneSidedMixtureExact("0.2", "0.05"), 0.59, 0.41, 0, 0.12, 0.18, 0.72
    ),
    "stitched": _all(Stitched("0.3", "0.01"), 0.018, 0.04, 0, 0.08, 0.03),
    "combined": _all(
        Combined((Linear("0.1", "0.8"), OneSidedMixtureExact("0.1", "0.1"))),
        0.39,
        0.31,
        0,
        0.12,
        0.09,
        0.46,
    ),
}
