"""The filters whose rule is `each sum stays within its budget`."""

from __future__ import annotations

from operator import add, gt, sub

from accountant.amounts import Units
from accountant.filters.base import Filter
from accountant.totals import Price


class AdditiveFilter(Filter):
    """Admit while spent + price <= capacity in each sum, exactly.

    A subclass gives the sums and computes the capacities. The check includes the claim
    asked for, so also the very first one.
    """

    def charge(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> tuple[Units, ...] | None:
        # The price may hold more sums than the filter's; `map` ends with the shorter one.
        after = tuple(map(add, spent, price.amounts))
        return None if any(map(gt, after, capacity)) else after

    def left(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> tuple[Units, ...]:
        return tuple(map(sub, capacity, spent))

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        fits = [
            int(room // amount)
            for room, amount in zip(self.left(capacity, spent), price.amounts, strict=False)
            if amount
        ]
        return min(fits, default=None)
