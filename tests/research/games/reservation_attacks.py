"""Adversaries who reserve, begin, show, settle, void and wait, against every filter."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from accountant import claims as c
from accountant.filters import FILTERS
from accountant.policy import Policy
from research.games import curves
from research.games.ledgers import FilterLedger, Offer
from research.games.optimal_stopping import Solution, solve
from research.games.pairs import coarsened_gaussian, randomized_response
from research.games.payoffs import Curve, hockey_stick
from research.games.reservations import LedgerState, LiveRules, Reservable
from tests.research.games import menus as m
from tests.research.games.menus import Ending


def once(offer: Offer) -> Reservable:
    """Return a mechanism with one answer, which settles in full."""
    return Reservable(offer.claim, (offer.pair,))


def brownian(*variances: str, cut: float) -> Reservable:
    """Return a Brownian session of sensitivity 1 (docs/theory.md P4).

    Args:
        variances: decreasing.
        cut: what is shown of each answer is the side of the cut on which it falls.
    """
    precisions = [0.0, *[1 / float(t) for t in variances]]
    squared = [b - a for a, b in pairwise(precisions)]
    return Reservable(
        c.Brownian(variance=variances[-1], sensitivity="1", first=variances[0]),
        tuple([coarsened_gaussian(math.sqrt(each), [cut]) for each in squared]),
        variances,
        tuple(squared),
    )


def noise_reduction(*scales: str) -> Reservable:
    """Return an ex-post session whose loss is on every path at most 1 / the last scale shown."""
    losses = [Decimal(0), *[1 / Decimal(b) for b in scales]]
    more = [float(b - a) for a, b in pairwise(losses)]
    claim = c.ExPost(f"{losses[-1]:f}", sensitivity="1", first=scales[0], least=scales[-1])
    return Reservable(claim, tuple(map(randomized_response, more)), scales)


@dataclass(frozen=True)
class ReservationAttack:
    """Adversaries who know what may be reserved and asked, against one policy.

    Attributes:
        policy: of the dataset under attack, without odometers.
        kinds: what may be reserved.
        asks: what runs at once.
        endings: what may come last, as large as still fits; beside a Gaussian all that open
            sessions may still show.
        near: the part of the promised delta that the best of them reaches at least.
        rules: how the ledger decides.
        at: epsilon of the hockey-stick where the guarantee is a rho.
    """

    policy: Policy
    kinds: tuple[Reservable, ...]
    asks: tuple[Offer, ...]
    endings: tuple[Ending, ...]
    near: float = 0.0
    rules: type[LiveRules] = LiveRules
    at: float | None = None
    _ledgers: list[FilterLedger] = field(default_factory=list, compare=False)

    @property
    def ledger(self) -> FilterLedger:
        """The filter, which finds the largest ending."""
        if not self._ledgers:
            self._ledgers.append(FilterLedger(self.policy))
        return self._ledgers[0]

    @property
    def epsilon(self) -> float:
        """Where the hockey-stick is taken."""
        return float(self.ledger.guarantee.amount) if self.at is None else self.at

    def solve(self, depth: int, *, most: int = 2) -> Solution[LedgerState]:
        """Return the best of all strategies at the hockey-stick of the guarantee."""
        rules = self.rules(self.policy, self.kinds, most=most)
        asks = [(offer.name, offer.claim, offer.pair) for offer in self.asks]
        return solve(
            rules.start,
            lambda state: rules.moves(state, asks),
            hockey_stick(self.epsilon, self.last),
            depth=depth,
        )

    def last(self, state: LedgerState) -> list[Curve]:
        """Return the curves of what may come last."""
        found: list[Curve] = []
        open_mu_squared = sum(self._open_mu_squared(state))
        for ending in self.endings:
            rung = self.ledger.maximum(state.totals, ending.claims)
            claim = None if rung is None else ending.claims[rung]
            if isinstance(claim, c.Gdp):
                found.append(_gaussian(float(claim.mu) ** 2 + open_mu_squared))
            elif rung is not None:
                found.append(ending.curves[rung])
        return found or ([_gaussian(open_mu_squared)] if open_mu_squared else [])

    def _open_mu_squared(self, state: LedgerState) -> list[float]:
        return [
            sum(self.kinds[held.which].mu_squared[held.shown :])
            for held in state.held
            if held.reservation is None or not held.reservation.is_lapsed(0)
        ]


def _gaussian(mu_squared: float) -> Curve:
    return lambda x: curves.gaussian(math.sqrt(mu_squared), x)


SESSION: Final = brownian("40", "16", "8", cut=0.3)
REDUCTION: Final = noise_reduction("10", "5", "2.5")
PURE: Final = once(m.pure("0.3"))
SMALL: Final = m.pure("0.2")
GAUSSIAN: Final = m.last_gaussian("2")
RESPONSE: Final = m.last_response("2")
EX_POST: Final = m.last_response("2", c.ExPost)


def policy(name: str, **fields: Any) -> Policy:
    return Policy(filter=name, **({"epsilon": "1", "delta": "0.1", "odometers": ()} | fields))


def _zcdp_like(name: str, near: float, **fields: Any) -> ReservationAttack:
    ends = (GAUSSIAN, RESPONSE)
    return ReservationAttack(policy(name, **fields), (SESSION, PURE), (SMALL,), ends, near)


ATTACKS: Final[dict[str, ReservationAttack]] = {
    "basic": ReservationAttack(
        policy("basic", delta="0.02"),
        (REDUCTION, once(m.approximate("0.3", "0.01"))),
        (SMALL,),
        (RESPONSE,),
        0.49,
    ),
    "advanced_2016": ReservationAttack(
        policy("advanced_2016", delta="0.3"),
        (PURE, once(m.shame("0.05"))),
        (SMALL,),
        (RESPONSE,),
        0.16,
    ),
    "fully_adaptive": _zcdp_like("fully_adaptive", 0.02),
    "zcdp": ReservationAttack(
        Policy(filter="zcdp", rho="0.2", odometers=()),
        (SESSION, PURE),
        (SMALL,),
        (GAUSSIAN, RESPONSE),
        0.68,
        at=0.5,
    ),
    "zcdp_tight": _zcdp_like("zcdp_tight", 0.5),
    "unified_brownian": _zcdp_like("unified_brownian", 0.5),
    "ex_post": ReservationAttack(
        policy("ex_post", delta="0.02"),
        (REDUCTION, once(m.ex_post_response("0.3", "0.01"))),
        (),
        (EX_POST,),
        0.49,
    ),
    "split": ReservationAttack(
        policy("split", epsilon_ex_post="0.8", delta_ex_post="0.02"),
        (REDUCTION, SESSION),
        (SMALL,),
        (GAUSSIAN, EX_POST),
        0.03,
    ),
    "gdp_residue": _zcdp_like("gdp_residue", 0.999),
    "optimal_homogeneous": ReservationAttack(
        policy("optimal_homogeneous", epsilon_each="0.3", delta_for_claims="0.02"),
        (PURE, once(m.shame("0.01"))),
        (SMALL,),
        (m.last_response("0.3"),),
        0.099,
    ),
    "renyi": _zcdp_like("renyi", 0.91, order="4"),
    "renyi_weighted": _zcdp_like("renyi_weighted", 0.49, orders=("3", "8")),
    "renyi_mixture": _zcdp_like("renyi_mixture", 0.93, orders=("3", "8")),
}
"""By filter."""


def _beside(name: str) -> ReservationAttack:
    """Return an attack on a filter with basic composition beside it."""
    attack = ATTACKS[name]
    kinds = (REDUCTION, *attack.kinds[:1]) if name != "split" else attack.kinds
    beside = replace(attack.policy, beside="basic")
    endings = (*attack.endings, EX_POST)
    return ReservationAttack(beside, kinds, (SMALL, m.pure("0.6")), endings)


ATTACKS_BESIDE: Final = {name: _beside(name) for name, kind in FILTERS.items() if kind.takes_beside}
"""By filter, with basic composition beside it."""
