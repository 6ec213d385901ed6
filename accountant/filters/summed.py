"""The filters whose state is plain sums, with any rule about these sums."""

from __future__ import annotations

import math
from operator import add, sub

from accountant.amounts import INFINITE, Units
from accountant.claims.price import Price
from accountant.filters.base import Filter

_WITHOUT_END = 10**60
"""More claims than any log can hold: a rule that admits so many admits any number."""


class SummedFilter(Filter):
    """Admit while `holds` is true of spent + price.

    `holds` must be monotone: where it refuses totals, it refuses all larger ones.
    """

    adds_up = True

    def charge(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> tuple[Units, ...] | None:
        # A price may also hold the odometers' sums; `map` stops at the end of `spent`.
        after = tuple(map(add, spent, price.amounts))
        return after if self.holds(capacity, after) else None

    def remaining(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> tuple[Units, ...]:
        return tuple(map(sub, capacity, spent))

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        return max(self._excesses(capacity, spent, price))

    def _excesses(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> list[float]:
        return [
            log_ratio(amount, room)
            for amount, room in zip(price.amounts, self.remaining(capacity, spent), strict=False)
        ]

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        def fit(times: int) -> bool:
            added = [amount * times if amount else 0 for amount in price.amounts]
            return self.holds(capacity, tuple(map(add, spent, added)))

        maximum = 1
        while fit(maximum):
            if maximum > _WITHOUT_END:
                return None
            maximum *= 2
        minimum = maximum // 2
        while maximum - minimum > 1:
            middle = (minimum + maximum) // 2
            minimum, maximum = (middle, maximum) if fit(middle) else (minimum, middle)
        return minimum


def log_ratio(cost: Units, room: Units) -> float:
    """Return ln(cost / room) for integers of any size, infinite where there is no room."""
    if not cost:
        return -math.inf
    if cost == INFINITE or room <= 0:
        return math.inf
    return math.log(cost) - math.log(room)
