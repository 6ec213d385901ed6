"""The real filters and odometers as the rules of a game."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from msgspec import UNSET

from accountant.amounts import Units, units_down
from accountant.claims import Claim, check_claim
from accountant.claims.price import price
from accountant.odometers import Odometer, Reader, sums_of
from accountant.policy import Policy, filter_of, parse_budget
from accountant.policy.cap import CappedFilter
from research.games.optimal_stopping import Move
from research.games.pairs import Pair

Totals = tuple[Units, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """A mechanism that an adversary may request.

    Attributes:
        claim: its promise, all that a ledger knows of it.
        pair: its laws on two neighbours, which obey the claim in both orders.
        settles: the claim paid at settlement, for each outcome; empty if that is always `claim`.
    """

    claim: Claim
    pair: Pair
    settles: tuple[Claim, ...] = ()

    @property
    def name(self) -> str:
        """The claim's type."""
        return str(self.claim.__struct_config__.tag)

    def swapped(self) -> Offer:
        """Return the offer with the neighbours in the other order."""
        return Offer(self.claim, self.pair.swapped(), self.settles)


class FilterLedger:
    """The filter of a policy with budget and cap, in the same integers as a dataset's ledger.

    Attributes:
        guarantee: the policy's promise.
        start: the spent totals before the first request.
    """

    def __init__(self, policy: Policy) -> None:
        budget = parse_budget(policy)
        self.kind = filter_of(policy)
        self.capacity: Totals = self.kind.capacity(budget)
        self.guarantee = self.kind.guarantee(budget)
        self.start: Totals = (0,) * len(self.kind.state)
        ratio = policy.most_per_request
        self._cap = None if ratio is UNSET else CappedFilter(self.kind, self.capacity, str(ratio))

    def charge(self, spent: Totals, claim: Claim) -> Totals | None:
        """Return the spent totals after the claim, None if the filter or its cap refuses it."""
        asked = price(check_claim(claim), self.kind.needs)
        if self._cap is not None and not self._cap.admits(asked):
            return None
        return self.kind.charge(self.capacity, spent, asked)

    def moves(self, spent: Totals, offers: Sequence[Offer]) -> list[Move[Totals]]:
        """Return the offers that the filter admits."""
        found = []
        for offer in offers:
            after = self.charge(spent, offer.claim)
            if after is not None:
                settled = tuple(self._settled(spent, claim) for claim in offer.settles)
                states = settled or (after,) * len(offer.pair.p)
                found.append(Move(offer.name, offer.pair, states))
        return found

    def _settled(self, spent: Totals, claim: Claim) -> Totals:
        after = self.charge(spent, claim)
        if after is None:
            raise ValueError(f"{claim} does not fit, though what was reserved for it did")
        return after

    def maximum(self, spent: Totals, ladder: Sequence[Claim]) -> int | None:
        """Return the index of the last claim that the filter still admits, None if there is none.

        Args:
            ladder: claims, each of which costs at least as much as the one before it.
        """
        admitted = bisect_left(ladder, True, key=lambda c: self.charge(spent, c) is None)
        return admitted - 1 if admitted else None


class OdometerLedger:
    """An odometer with the totals that it reads; it grants every claim.

    Args:
        delta_for_claims: delta'', the limit on the sum of the claims' own deltas.
        ex_post: ex-post claims pay their settlement instead of their bound.
    """

    def __init__(
        self, odometer: Odometer, *, delta_for_claims: str = "0", ex_post: bool = False
    ) -> None:
        self.sums = sums_of(odometer, with_ex_post=ex_post)
        self.start: Totals = (0,) * len(self.sums)
        self._read = Reader(odometer, self.sums, units_down(Decimal(delta_for_claims)))

    def reading(self, totals: Totals) -> float:
        """Return U in nats at the given totals."""
        return self._read(totals)

    def moves(self, totals: Totals, offers: Sequence[Offer]) -> list[Move[Totals]]:
        """Return every offer with the totals after it."""
        found = []
        for offer in offers:
            claims = offer.settles or (offer.claim,) * len(offer.pair.p)
            after = tuple(self._after(totals, claim) for claim in claims)
            found.append(Move(offer.name, offer.pair, after))
        return found

    def _after(self, totals: Totals, claim: Claim) -> Totals:
        asked = price(check_claim(claim), self.sums).amounts
        return tuple(x + y for x, y in zip(totals, asked, strict=True))
