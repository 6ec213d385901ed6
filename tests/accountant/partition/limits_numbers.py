"""What a budget admits, leaves and counts as spent, in fractions; no rule of limits.

Prices are the product's, and so is what one claim takes off a Gaussian residue; both are compared
with mpmath elsewhere. Which of them may be added up is told here by the oracle, which shares
nothing with the product.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import msgspec

from accountant.claims import CheckedClaim, Claim
from accountant.claims.price import Price, price
from accountant.filters.gdp_residue import GdpResidue
from accountant.fractional import PARTS, amount_of, parts_of
from tests.faults.oracle import filters, halves, mixture
from tests.faults.oracle.amounts import INFINITE, as_text, rounded_up, units
from tests.faults.oracle.policies import PARAMETERS, resolved

Fields = dict[str, Any]
Amounts = dict[str, Any]
"""In units of 1e-40 by the name of the sum: fractions, and the float `INFINITE`."""

_STEPS: Final = 10**8
_RESIDUE: Final = GdpResidue()


class Meter:
    """One filter with its parameters, whatever its capacities are.

    Args:
        policy: resolved.
        whole: the filter's own capacities, of which a limit may have a part.

    Attributes:
        kind: what two budgets must share so that one counts on where the other was.
        sums, state: names of what has a limit, and of all that is kept.
    """

    def __init__(self, policy: Fields, whole: Amounts) -> None:
        self.policy = policy
        self.whole = whole
        fixed = ("filter", "beside", *PARAMETERS)
        self.kind = json.dumps({name: policy[name] for name in fixed if name in policy})
        self.sums = halves.sums(policy)
        self.state = halves.state(policy)
        self._own = filters.sums(policy)
        self._needs = halves.needs(policy)

    def __deepcopy__(self, _: object) -> Meter:
        return self  # nothing of it changes

    def nothing(self) -> Amounts:
        return dict.fromkeys(self.state, 0)

    def cost(self, claim: str) -> Amounts:
        return _cost(claim, self._needs)

    def accepts(self, claim: str) -> bool:
        """Tell whether some budget, however large, would take a claim."""
        cost = {name: (amount, amount) for name, amount in self.cost(claim).items()}
        return halves.accepts(self.policy, json.loads(claim), cost)

    def charged(self, capacity: Amounts, spent: Amounts, claim: str) -> Amounts | None:
        """Return what is spent after a claim, None where it does not fit."""
        cost = self.cost(claim)
        own = self._by_filter(capacity, spent, claim, cost)
        ranges = {name: (amount, amount) for name, amount in cost.items()}
        by_filter = None if own is None else {name: (each, each) for name, each in own.items()}
        found = halves.charged(self.policy, capacity, spent, by_filter, ranges)
        if found is None:
            return None
        return {name: _plus(spent[name], found[name][0]) for name in self.state}

    def _by_filter(
        self, capacity: Amounts, spent: Amounts, claim: str, cost: Amounts
    ) -> Amounts | None:
        own = {name: cost[name] for name in self._own}
        if self.policy["filter"] == "gdp_residue":
            return self._off_the_residue(capacity, spent, claim)
        after = {name: _plus(spent[name], own[name]) for name in self._own}
        return own if self._admits(capacity, after) else None

    def _admits(self, capacity: Amounts, after: Amounts) -> bool:
        most = tuple(capacity[name] for name in self._own)
        totals = tuple(after[name] for name in self._own)
        if self.policy["filter"] == "renyi_mixture" and not any(map(_le, totals, most)):
            return mixture.proves(self._setting(), self._shifted(capacity, totals))
        return filters.admits(self.policy, most, totals)

    def _setting(self) -> mixture.Setting:
        own, orders = filters.deltas(self.policy)[0], tuple(filters.orders(self.policy))
        return self.policy["epsilon"], own, orders, tuple(filters.weights(self.policy))

    def _shifted(self, capacity: Amounts, totals: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return totals as far from the whole capacities as they are from the given ones."""
        return tuple(
            _plus(total, self.whole[name] - capacity[name])
            for name, total in zip(self._own, totals, strict=True)
        )

    def _off_the_residue(self, capacity: Amounts, spent: Amounts, claim: str) -> Amounts | None:
        most = tuple(capacity[name] for name in self._own)
        before = tuple(_as_amount(spent[name]) for name in self._own)
        after = _RESIDUE.charge(most, before, _price(claim, _RESIDUE.needs))
        if after is None:
            return None
        return {n: exact(a) - spent[n] for n, a in zip(self._own, after, strict=True)}

    def left(self, capacity: Amounts, spent: Amounts) -> Amounts:
        """Return by how much each sum may still grow, never less than 0."""
        room = halves.left(self.policy, capacity, spent)
        return {name: max(0, math.floor(each)) for name, each in room.items()}

    def part(self, capacity: Amounts, spent: Amounts) -> Fraction:
        """Return the spent part of the additive budget."""
        if self.policy["filter"] != "renyi_mixture" or capacity == self.whole:
            return halves.spent_part(self.policy, capacity, spent)
        totals = tuple(spent[name] for name in self._own)
        if not all(totals):
            return Fraction(0)
        setting, low, high = self._setting(), 0, _STEPS
        while high - low > 1:
            middle = (low + high) // 2
            larger = tuple(
                total if total == INFINITE else -(-math.ceil(total) * _STEPS // middle)
                for total in totals
            )
            within = mixture.proves(setting, self._shifted(capacity, larger))
            low, high = (low, middle) if within else (middle, high)
        return Fraction(high, _STEPS)

    def parts_of_whole(self, ratio: str) -> Amounts:
        """Return a part of each capacity, rounded down to units."""
        return {n: math.floor(Fraction(ratio) * int(most)) for n, most in self.whole.items()}


def _le(one: Any, other: Any) -> bool:
    return bool(one <= other)


def _plus(one: Any, other: Any) -> Any:
    # Python cannot add a large fraction to a float that is infinite.
    return INFINITE if INFINITE in (one, other) else one + other


def exact(amount: Any) -> Any:
    """Return an amount of the product as a fraction of units."""
    return amount if amount == INFINITE else Fraction(parts_of(amount), PARTS)


def _as_amount(units: Any) -> Any:
    return amount_of(int(units * PARTS))


@lru_cache(maxsize=65_536)
def _price(claim: str, names: tuple[str, ...]) -> Price:
    checked = CheckedClaim(msgspec.convert(json.loads(claim), Claim))
    return price(checked, names)


@lru_cache(maxsize=65_536)
def _cost(claim: str, names: tuple[str, ...]) -> Amounts:
    amounts = _price(claim, names).amounts
    return {name: exact(amount) for name, amount in zip(names, amounts, strict=True)}


def texts(amounts: Amounts) -> dict[str, str]:
    """Return amounts as the log writes what is spent: rounded up."""
    return {n: as_text(a if a == INFINITE else math.ceil(a)) for n, a in amounts.items()}


def read(budget: dict[str, str]) -> Amounts:
    """Return a budget of the log in units."""
    return {name: int(units(text)) for name, text in budget.items()}


_KNOWN: dict[str, bool] = {}


def is_budget_of(policy: Fields, budget: dict[str, str]) -> bool:
    """Tell whether a budget that a ledger tells is one of the filter."""
    key = json.dumps([policy, budget])
    if key not in _KNOWN:
        spans = dict(zip(halves.sums(policy), halves.capacities(policy), strict=True))
        told = read(budget)
        _KNOWN[key] = told.keys() == spans.keys() and all(
            low <= told[name] <= high for name, (low, high) in spans.items()
        )
    return _KNOWN[key]


__all__ = ["Amounts", "Fields", "Meter", "is_budget_of", "read", "resolved", "rounded_up", "texts"]
