"""The filters whose rule is `each sum stays within its budget`."""

from __future__ import annotations

from operator import add, gt

from accountant.amounts import Units
from accountant.claims.price import Price
from accountant.filters.summed import SummedFilter


class AdditiveFilter(SummedFilter):
    """Admit while spent + price <= capacity in each sum, exactly.

    A subclass names the sums and computes the capacities. The check includes the requested
    claim, hence also a dataset's first one.
    """

    def charge(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> tuple[Units, ...] | None:
        # The rule of `SummedFilter.charge` without the call of `holds`, for speed.
        after = tuple(map(add, spent, price.amounts))
        return None if any(map(gt, after, capacity)) else after

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        fits = [
            int(room // amount)
            for room, amount in zip(self.remaining(capacity, spent), price.amounts, strict=False)
            if amount
        ]
        return min(fits, default=None)
