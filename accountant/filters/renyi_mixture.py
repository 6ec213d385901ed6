"""Renyi divergences of several orders, which together prove one delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import sub
from typing import Final

from accountant.amounts import Units
from accountant.claims.price import Price
from accountant.conversions.renyi_mixture import RenyiMixtureRule
from accountant.filters.renyi_weighted import RenyiWeightedFilter

_STEPS: Final = 10**8
"""Parts of a budget in which `progress` is counted."""


class RenyiMixtureFilter(RenyiWeightedFilter):
    """Admit while sup over l of (1 - e^(epsilon-l))_+ / h(l, S) <= delta.

    h(l, S) = sum_j w_j e^((alpha_j-1)(l-S_j)), of the sums S_j of D_{alpha_j}. It admits
    whatever `renyi_weighted` admits with the same orders and weights, and goes on where every
    order is over its own budget. Guarantees (epsilon, delta)-DP to claims that have a Renyi
    curve. Source: docs/theory.md P5b (own derivation).

    Args:
        orders, weights: as of `renyi_weighted`.
    """

    name = "renyi_mixture"
    error_law = "discrete_gaussian"

    def __init__(
        self, orders: tuple[str, ...] | None = None, weights: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(orders, weights)
        self._mixture = RenyiMixtureRule(self.orders)

    def holds(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        return super().holds(capacity, spent) or self._mixture.proves(
            tuple(map(sub, spent, capacity))
        )

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        amounts = price.amounts[: len(spent)]
        if 0 in amounts:
            return None if any(amounts) else -math.inf
        fits, _ = self._mixture.reach(tuple(map(sub, spent, capacity)), amounts)
        return -math.log(fits) if fits > 0 else math.inf

    def progress(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> Units:
        """Return the least part n/1e8 with spent/part within the rule, of the first budget.

        So it is a ratio along what was asked for until now, rounded up, and is whole where a
        hundred-millionth more of everything would be too much.
        """
        if 0 in spent:
            return 0
        whole = int(capacity[0])
        reach, near = self._mixture.reach([-limit for limit in capacity], spent)

        def within(part: int) -> bool:
            return self._mixture.proves(
                [
                    s if s == math.inf else -(-int(s) * _STEPS // part) - limit
                    for s, limit in zip(spent, capacity, strict=True)
                ],
                near,
            )

        part = _least(within, math.ceil(_STEPS / reach) if reach > 1 else _STEPS, _STEPS)
        return -(-part * whole // _STEPS)


def _least(within: Callable[[int], bool], guess: int, maximum: int) -> int:
    """Return the least whole number above 0 within a rule that holds from there on.

    Args:
        guess: about that number, 1 to `maximum`.
        maximum: taken to be within, unasked.
    """
    low, high, step = guess - 1, guess, 1
    while high < maximum and not within(high):
        low, high, step = high, min(maximum, high + step), 2 * step
    while low > 0 and within(low):
        low, high, step = max(0, low - step), low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high
