"""The judge's reading of what filters admit, with the product's prices, which are exact.

What one claim takes off a Gaussian residue is the product's too. Both are compared with mpmath
elsewhere; what may be added up, and which rule says so, is decided here by the rule of
`tests/faults`, which shares nothing with the product.
"""

from __future__ import annotations

import json
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import msgspec

from accountant.claims import CheckedClaim, Claim
from accountant.claims.price import Price, price
from accountant.filters.gdp_residue import GdpResidueFilter
from accountant.fractional import PARTS, amount_of, parts_of
from tests.faults.oracle import halves
from tests.faults.oracle.amounts import INFINITE, Range
from tests.faults.oracle.meter import Amounts, Meter

_RESIDUE: Final = GdpResidueFilter()


class ExactMeter(Meter):
    """A filter whose prices are single numbers."""

    def price(self, claim: str) -> dict[str, Range]:
        return _span(claim, halves.needs(self.policy))

    def residue(self, capacity: Amounts, spent: Amounts, claim: str) -> Range | None:
        maximum = tuple(int(capacity[name]) for name in self.own)
        before = tuple(amount_of(int(spent[name] * PARTS)) for name in self.own)
        after = _RESIDUE.charge(maximum, before, _price(claim, _RESIDUE.needs))
        if after is None:
            return None
        cost = _exact(after[0]) - spent[self.own[0]]
        return cost, cost


def _exact(amount: Any) -> Any:
    """Return an amount of the product as a fraction of units."""
    return amount if amount == INFINITE else Fraction(parts_of(amount), PARTS)


@lru_cache(maxsize=65_536)
def _price(claim: str, names: tuple[str, ...]) -> Price:
    return price(CheckedClaim(msgspec.convert(json.loads(claim), Claim)), names)


@lru_cache(maxsize=65_536)
def _span(claim: str, names: tuple[str, ...]) -> dict[str, Range]:
    exact = map(_exact, _price(claim, names).amounts)
    return {name: (amount, amount) for name, amount in zip(names, exact, strict=True)}
