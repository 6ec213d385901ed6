"""The most that one request may take of a budget, `most_per_request` of a policy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from accountant.amounts import Units
from accountant.claims.price import Price
from accountant.errors import RequestInvalid
from accountant.filters import Filter

WITH_SLACK: Final = 1 + Fraction(1, 10**9)
"""What a cap is multiplied by. It guards against typing errors and guarantees nothing, so a float
that was meant as 0.1 is within a cap of 0.1. Budgets and limits have no slack."""

_NOTHING: Final = 0
_MAX_KNOWN: Final = 64  # prices: thousands of policies may each keep so many


class CappedFilter:
    """A policy's filter together with its cap, for searches of what would be granted.

    A request is within the cap if on an empty dataset of the policy it alone would bring
    `spent_ratio` to at most the ratio times `WITH_SLACK`. That needs no more than one charge,
    whatever was spent.

    Args:
        ratio: in (0, 1], as text.
        limits: what is in force of each sum; None for all.

    Attributes:
        known: answers of `admits`, by the address of the price, which each of them holds.
        adds_up: as of `Filter`; a batch may be above the cap where its parts are not.
    """

    adds_up = False

    def __init__(
        self,
        kind: Filter,
        capacity: tuple[Units, ...],
        ratio: str,
        limits: tuple[Units, ...] | None = None,
    ) -> None:
        self._kind = kind
        self._capacity = capacity
        self._limits = capacity if limits is None else limits
        self._empty: tuple[Units, ...] = (_NOTHING,) * len(kind.state)
        self.maximum = math.floor(Fraction(ratio) * WITH_SLACK * int(self._limits[0]))
        self.needs = kind.needs
        self.known: dict[int, tuple[Price, bool]] = {}

    def admits(self, price: Price) -> bool:
        """Tell whether a request of this price is within the cap."""
        # Equal claims share a price, and the answer depends on nothing else. Each entry holds its
        # price, so that no other object can have that id meanwhile.
        known = self.known.get(id(price))
        if known is not None:
            return known[1]
        admitted = self._is_within(price)
        if len(self.known) >= _MAX_KNOWN:
            self.known.clear()
        self.known[id(price)] = price, admitted
        return admitted

    def _is_within(self, price: Price) -> bool:
        alone = self._progress_alone(price)
        return alone is not None and alone <= self.maximum

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        """Tell whether such a request would be granted: it fits, and is within the cap."""
        return self._kind.fits(capacity, spent, price) and self._is_within(price)

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such requests fit one after another, None if any number does."""
        return self._kind.count(capacity, spent, price) if self._is_within(price) else 0

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        """As `Filter.excess`, of the budget left or of the cap, whichever is passed further."""
        of_left = self._kind.excess(capacity, spent, price)
        alone = self._progress_alone(price)
        if of_left is None or not alone or not self.maximum:
            return None
        return max(of_left, math.log(alone / self.maximum))

    def _progress_alone(self, price: Price) -> Units | None:
        alone = self._kind.charge(self._capacity, self._empty, price)
        return None if alone is None else self._kind.progress(self._limits, alone)


def check_cap(ratio: str, capacity: tuple[Units, ...], *, field: str) -> None:
    """Check that some request can be within a cap.

    Raises: RequestInvalid.
    """
    if Fraction(ratio) * int(capacity[0]) < 1:
        raise RequestInvalid(field, "must leave a request at least 1e-40 of the budget", ratio)
