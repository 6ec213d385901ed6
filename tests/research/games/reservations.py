"""The game of reservations: held, run, refined, settled and voided by the ledger's own rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from accountant import claims as c
from accountant.amounts import UNIT
from accountant.claims import Claim, check_claim
from accountant.claims.price import Price, price
from accountant.ledger.settlement import (
    Ruling,
    settle_brownian,
    settle_ex_post,
    settle_in_full,
    void,
    voidable_price,
)
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from research.games import curves
from research.games.ledgers import FilterLedger, Offer, Totals
from research.games.optimal_stopping import SILENT, Move, Solution, solve
from research.games.pairs import Pair, coarsened_gaussian
from research.games.payoffs import Curve, hockey_stick
from tests.research.games.menus import Ending


@dataclass(frozen=True)
class Session:
    """A Brownian mechanism of sensitivity 1, shown at ever smaller variances.

    Attributes:
        variances: decreasing; the last is what a reservation is made for.
        cut: what is seen of each refinement is on which side of the cut it falls.
    """

    variances: tuple[str, ...]
    cut: float

    @property
    def claim(self) -> c.Brownian:
        """The reservation."""
        return c.Brownian(variance=self.variances[-1], sensitivity="1")

    def precision(self, shown: int) -> float:
        """Return 1/t of what was shown, 0 before anything was."""
        return 1 / float(self.variances[shown - 1]) if shown else 0.0

    def refinement(self, shown: int) -> Pair:
        """Return the next refinement: an independent Gaussian (docs/theory.md P4)."""
        gained = self.precision(shown + 1) - self.precision(shown)
        return coarsened_gaussian(math.sqrt(gained), [self.cut])


class Held(NamedTuple):
    """A reservation that is open.

    Attributes:
        which: its place in the attack's list.
        shown: how many variances were shown; 0 until it began.
        charged: what the totals grew by.
    """

    which: int
    shown: int
    charged: Totals


class Ledger(NamedTuple):
    """The totals, and the reservations that are open."""

    totals: Totals
    held: tuple[Held, ...] = ()


MOST_HELD: Final = 2


@dataclass(frozen=True)
class ReservationAttack:
    """Adversaries who reserve, run, refine, settle and void as the ledger lets them.

    Attributes:
        policy: of the dataset, without odometers.
        offers: what runs at once.
        held: what is reserved: sessions, and pure mechanisms that may be voided.
        ending: Gaussians that may come last.
        depth: the most moves before that.
        near: the part of the guaranteed delta that the best of them reaches at least.
        as_found: reservations are charged by the state they find, and what was charged is
            returned when they are voided: the rule that is forbidden.
    """

    policy: Policy
    offers: tuple[Offer, ...]
    held: tuple[Session | Offer, ...]
    ending: Ending
    depth: int
    near: float
    as_found: bool = False

    def solve(self) -> Solution[Ledger]:
        """Return the best of all strategies at the hockey-stick of the guarantee."""
        return Game(self).solve()


class Game:
    """One attack, played on one plan."""

    def __init__(self, attack: ReservationAttack) -> None:
        self.attack = attack
        self.plan = open_plan(resolve(attack.policy))
        assert self.plan.sums == self.plan.kind.sums

    def solve(self) -> Solution[Ledger]:
        start = Ledger((0,) * self.plan.width)
        epsilon = float(FilterLedger(self.attack.policy).guarantee.amount)
        return solve(start, self.moves, hockey_stick(epsilon, self.last), depth=self.attack.depth)

    def moves(self, ledger: Ledger) -> list[Move[Ledger]]:
        found = []
        for offer in self.attack.offers:
            after = self.charge(ledger.totals, price(check_claim(offer.claim), self.plan.priced))
            if after is not None:
                state = Ledger(after, ledger.held)
                found.append(Move(offer.name, offer.pair, (state,) * len(offer.pair.p)))
        if len(ledger.held) < MOST_HELD:
            found += self.reserve(ledger)
        for held in ledger.held:
            rest = list(ledger.held)
            rest.remove(held)
            found += self.go_on(ledger.totals, held, tuple(rest))
        return found

    def reserve(self, ledger: Ledger) -> list[Move[Ledger]]:
        found = []
        for which, kind in enumerate(self.attack.held):
            after = self.charge(ledger.totals, self.asked(kind.claim))
            if after is not None:
                charged = tuple(x - y for x, y in zip(after, ledger.totals, strict=True))
                held = tuple(sorted((*ledger.held, Held(which, 0, charged))))
                found.append(Move("reserve", SILENT, (Ledger(after, held),)))
        return found

    def go_on(self, totals: Totals, held: Held, rest: tuple[Held, ...]) -> list[Move[Ledger]]:
        kind = self.attack.held[held.which]
        found = []
        if not held.shown:
            back = self.voided(totals, held, kind.claim)
            found.append(Move("void", SILENT, (Ledger(back, rest),)))
        if isinstance(kind, Offer):
            after = tuple(Ledger(x, rest) for x in self.settled(totals, kind))
            found.append(Move("run", kind.pair, after))
            return found
        if held.shown:
            ruling = settle_brownian(
                self.plan, kind.claim, shown=kind.variances[held.shown - 1], has_begun=True
            )
            assert ruling.ruling is Ruling.SETTLED
            found.append(Move("settle", SILENT, (Ledger(less(totals, ruling.returned), rest),)))
        if held.shown < len(kind.variances):
            pair = kind.refinement(held.shown)
            more = tuple(sorted((*rest, held._replace(shown=held.shown + 1))))
            found.append(Move("refine", pair, (Ledger(totals, more),) * len(pair.p)))
        return found

    def settled(self, totals: Totals, offer: Offer) -> list[Totals]:
        """Return the totals after each outcome of what was reserved and has run."""
        if not isinstance(offer.claim, c.ExPost):
            return [less(totals, settle_in_full(self.plan).returned)] * len(offer.pair.p)
        found = []
        for paid in offer.settles:
            assert isinstance(paid, c.ExPost)
            ruling = settle_ex_post(
                self.plan, offer.claim, paid=Decimal(paid.epsilon), has_begun=True
            )
            assert ruling.ruling is Ruling.SETTLED
            found.append(less(totals, ruling.returned))
        return found

    def asked(self, claim: Claim) -> Price:
        if self.attack.as_found:
            return price(check_claim(claim), self.plan.priced)
        return voidable_price(self.plan, check_claim(claim))

    def voided(self, totals: Totals, held: Held, claim: Claim) -> Totals:
        ruling = void(self.plan, check_claim(claim), held.charged, has_begun=False)
        if self.attack.as_found:
            # The ledger would not do it.
            assert ruling.ruling is Ruling.REFUSED
            return less(totals, held.charged)
        assert ruling.ruling is Ruling.VOIDED
        return less(totals, ruling.returned)

    def charge(self, totals: Totals, asked: Price) -> Totals | None:
        return self.plan.kind.charge(self.plan.capacity, totals, asked)

    def last(self, ledger: Ledger) -> list[Curve]:
        """Return the largest Gaussian that fits, with all that open sessions may still show."""
        claims = self.attack.ending.claims
        low, high = 0, len(claims)
        while low < high:
            middle = (low + high) // 2
            asked = price(check_claim(claims[middle]), self.plan.priced)
            fits = self.charge(ledger.totals, asked) is not None
            low, high = (middle + 1, high) if fits else (low, middle)
        claim = claims[low - 1] if low else None
        squared = float(Decimal(claim.mu)) ** 2 if isinstance(claim, c.Gdp) else 0.0
        for held in ledger.held:
            kind = self.attack.held[held.which]
            if isinstance(kind, Session):
                squared += kind.precision(len(kind.variances)) - kind.precision(held.shown)
        mu = math.sqrt(squared)
        return [lambda x: curves.gaussian(mu, x)]


def less(totals: Totals, returned: Totals) -> Totals:
    after = tuple(x - y for x, y in zip(totals, returned, strict=True))
    assert min(after) >= 0
    return after


def state_left(policy: Policy, *offers: Offer) -> float:
    """Return m of a gdp_residue ledger after what is offered has run."""
    ledger = FilterLedger(policy)
    spent = ledger.start
    for offer in offers:
        after = ledger.charge(spent, offer.claim)
        assert after is not None
        spent = after
    return math.sqrt((ledger.capacity[0] - spent[0]) / UNIT)
