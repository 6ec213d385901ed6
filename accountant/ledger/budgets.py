"""The admission rule: a claim is granted where each of several budgets admits it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import msgspec

from accountant.amounts import INFINITE, Units
from accountant.claims import AllOf, CheckedClaim, Claim, Interactive, Repeat
from accountant.claims.price import Price, price
from accountant.dataset_ledger import DatasetLedger
from accountant.filters import Filter
from accountant.ledger.largest_fit import AnyBudget
from accountant.limits.applicable_limits import ApplicableLimits
from accountant.limits.compiled_limit import CompiledLimit, reserved_of, whole_of
from accountant.limits.reserved_totals import Sums, plus
from accountant.records.limit_records import LimitName
from accountant.records.outcomes import Reason

Part = tuple[CompiledLimit, Sums]
"""One budget, and what was used of it."""


class Denial(NamedTuple):
    """Why a claim is not granted, and which limit denies it; None where the dataset does."""

    reason: Reason
    place: LimitName | None = None


class AllBudgets(msgspec.Struct, frozen=True, gc=False):
    """Admits what each of some budgets admits.

    The decision on a request charges all of them; the search for the largest claim that fits asks
    all of them, as it asks a filter. Equal ones are the same to a cache of what fits.

    Attributes:
        parts: the dataset's own budget, then what is left of it beside what is reserved for
            others, then the budgets of limits and periods.
    """

    parts: tuple[Part, ...]

    def charge(
        self, claim: CheckedClaim, asked: Price, reserve: bool = False
    ) -> list[Sums] | Denial:
        """Return what was used of each budget after a claim, or why it is denied.

        Args:
            asked: what the claim costs the dataset.
            reserve: the claim may be voided later.
        """
        after: list[Sums] = []
        for budget, used in self.parts:
            cost = budget.price(claim, asked) if budget.own else asked
            if reserve:
                charged = budget.charge_reserved(used, claim, cost)
            else:
                charged = budget.charge(used, cost)
            if charged is None:
                return self._denial(budget, claim, asked)
            after.append(charged)
        return after

    def _denial(self, denying: CompiledLimit, claim: CheckedClaim, asked: Price) -> Denial:
        """Return why a budget denies a claim, with the most telling of the reasons.

        Precedence: claim_not_accepted, above_cap, exhausted. The dataset comes before all limits.
        """
        whole = denying.place is None
        for budget, _ in self.parts[:1] if whole else self.parts[1:]:
            # A claim has another price at a limit with a filter of its own alone.
            if whole or budget.own:
                own = budget.price(claim, asked)
                if never_fits(budget.kind, budget.capacity, claim, own):
                    place = budget.place
                    return Denial(Reason.CLAIM_NOT_ACCEPTED, place)
        if denying.cap is not None and not denying.cap.admits(asked):
            return Denial(Reason.ABOVE_CAP)
        return Denial(Reason.EXHAUSTED, denying.place)

    @property
    def search_filter(self) -> AnyBudget:
        """What the search for the largest claim that fits asks: a lone budget by itself."""
        return self if len(self.parts) > 1 else self.parts[0][0].search_filter

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the sums that it needs of a price."""
        return _needs(tuple([budget.kind.needs for budget, _ in self.parts]))

    @property
    def adds_up(self) -> bool:
        """Whether a batch costs each of them what its mechanisms cost, and none has a cap."""
        return all(budget.search_filter.adds_up for budget, _ in self.parts)

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        """Tell whether all of them admit a price; they go by what was used of each."""
        return all(budget.charge(used, own) is not None for budget, used, own in self._each(price))

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another, None if any number does."""
        # A limit may be lowered below what is used, in a sum that the claim does not touch, too:
        # a filter's own count would not look at that sum.
        counts = [
            0
            if budget.charge(used, own) is None
            else budget.search_filter.count(budget.capacity, used, own)
            for budget, used, own in self._each(price)
        ]
        return min([count for count in counts if count is not None], default=None)

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        """As `Filter.excess`, of the budget that is passed furthest."""
        furthest = -math.inf
        for budget, used, own in self._each(price):
            if budget.is_over(used):
                return math.inf
            if INFINITE in own.amounts:
                return None  # too large for this budget whatever is left: a smaller one may fit
            excess = budget.search_filter.excess(budget.capacity, used, own)
            if excess is None:
                return None
            furthest = max(furthest, excess)
        return furthest

    def _each(self, price: Price) -> list[tuple[CompiledLimit, Sums, Price]]:
        needs = self.needs
        return [
            (budget, used, replace(price, amounts=tuple([price.amounts[i] for i in places])))
            for budget, used in self.parts
            for places in (_places(budget.kind.needs, needs),)
        ]


@lru_cache(maxsize=1024)
def _needs(each: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in each for name in names))


@lru_cache(maxsize=1024)
def _places(own: tuple[str, ...], every: tuple[str, ...]) -> tuple[int, ...]:
    return tuple([every.index(name) for name in own])


def budgets_of(ledger: DatasetLedger, limits: ApplicableLimits | None) -> AllBudgets:
    """Return the budgets that must admit a claim.

    Args:
        limits: those that apply to the request, None where the dataset has none.
    """
    plan = ledger.plan
    whole = whole_of(plan), ledger.totals[: plan.width]
    if limits is None:
        return AllBudgets((whole,))
    parts: list[Part] = [whole]
    if limits.reserved:
        parts.append((reserved_of(plan), plus(ledger.spent, limits.reserved)))
    return AllBudgets((*parts, *limits.budgets))


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
