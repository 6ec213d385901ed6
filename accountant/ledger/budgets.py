"""The admission rule: a claim is granted where each of several budgets admits it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from accountant.amounts import INFINITE, Units
from accountant.claims import AllOf, CheckedClaim, Claim, Interactive, Repeat
from accountant.claims.price import Price, price
from accountant.filters import Filter
from accountant.ledger import Ledger
from accountant.limits.applicable import ApplicableLimits
from accountant.limits.compiled import is_over
from accountant.limits.reserved import plus
from accountant.policy.cap import CappedFilter


@dataclass(frozen=True, slots=True)
class Budget:
    """One of the budgets, and what was spent of it."""

    kind: Filter | CappedFilter
    capacity: tuple[Units, ...]
    spent: tuple[Units, ...]

    @property
    def is_over(self) -> bool:
        """Whether a lowered limit of a filter that has a state leaves nothing of it."""
        kind = self.kind
        return isinstance(kind, Filter) and is_over(kind, self.capacity, self.spent)

    def admits(self, price: Price) -> bool:
        """Tell whether it admits one claim of a price in its own sums."""
        return not self.is_over and self.kind.fits(self.capacity, self.spent, price)


@dataclass(frozen=True, slots=True)
class AllBudgets:
    """Admits what each of some budgets admits; asked as a filter, it goes by their own state.

    Equal ones are the same to a cache of what fits.
    """

    parts: tuple[Budget, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the sums that it needs of a price."""
        return _needs(tuple([part.kind.needs for part in self.parts]))

    @property
    def adds_up(self) -> bool:
        """Whether a batch costs each of them what its mechanisms cost, and none has a cap."""
        return all(part.kind.adds_up for part in self.parts)

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        """Tell whether all of them admit a price."""
        return all(part.admits(own) for part, own in self._each(price))

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another, None if any number does."""
        # A limit may be lowered below what is used, in a sum that the claim does not touch, too:
        # a filter's own count would not look at that sum.
        counts = [
            part.kind.count(part.capacity, part.spent, own) if part.admits(own) else 0
            for part, own in self._each(price)
        ]
        return min([count for count in counts if count is not None], default=None)

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        """As `Filter.excess`, of the budget that is passed furthest."""
        furthest = -math.inf
        for part, own in self._each(price):
            if part.is_over:
                return math.inf
            if INFINITE in own.amounts:
                return None  # too large for this budget whatever is left: a smaller one may fit
            excess = part.kind.excess(part.capacity, part.spent, own)
            if excess is None:
                return None
            furthest = max(furthest, excess)
        return furthest

    def _each(self, price: Price) -> list[tuple[Budget, Price]]:
        needs = self.needs
        return [
            (part, replace(price, amounts=tuple([price.amounts[i] for i in places])))
            for part in self.parts
            for places in (_places(part.kind.needs, needs),)
        ]


@lru_cache(maxsize=1024)
def _needs(each: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in each for name in names))


@lru_cache(maxsize=1024)
def _places(own: tuple[str, ...], every: tuple[str, ...]) -> tuple[int, ...]:
    return tuple([every.index(name) for name in own])


def budgets_of(standing: ApplicableLimits, ledger: Ledger) -> AllBudgets:
    """Return what an analyst's requests are granted by: the dataset, its cap, and every level."""
    plan = ledger.plan
    parts = [Budget(plan.offered, plan.capacity, ledger.spent)]
    if standing.others:
        parts.append(Budget(plan.kind, plan.capacity, plus(ledger.spent, standing.others)))
    for each in standing.limits:
        limit, pace = each.bounds
        if limit is not None:
            parts.append(Budget(limit.kind, limit.capacity, each.counted))
        if pace is not None:
            parts.append(Budget(pace.kind, pace.capacity, each.paced))
    return AllBudgets(tuple(parts))


def never_fits(
    kind: Filter, capacity: tuple[Units, ...], claim: CheckedClaim, asked: Price
) -> bool:
    """Tell whether no claim like this one fits, not even a smaller one on an empty budget.

    The filter needs a sum that the claim cannot bound, or a mechanism in it has a delta above all
    that claims may spend: an analyst pays less by another epsilon or sigma, which moves no delta.

    Args:
        asked: what the claim costs there.
    """
    if not kind.accepts(asked):
        return True
    if kind.has_room_for_delta(capacity, asked):
        return False
    return not all(
        kind.has_room_for_delta(capacity, price(CheckedClaim(each), kind.needs))
        for each in _mechanisms(claim.claim)
    )


def _mechanisms(claim: Claim) -> Iterator[Claim]:
    """Yield the claims that a batch is made of; others are their own."""
    if isinstance(claim, AllOf):
        for each in claim.claims:
            yield from _mechanisms(each)
    elif isinstance(claim, Repeat | Interactive):
        yield from _mechanisms(claim.claim)
    else:
        yield claim
