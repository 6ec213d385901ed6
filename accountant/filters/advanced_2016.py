"""The first published filter at the rate of advanced composition."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from operator import add, gt
from typing import Final

from accountant.amounts import UNIT, Units, above, below, budget_down, parse_in, precise, units_down
from accountant.claims.fields import MAX_EPSILON, MIN_EPSILON, check_delta
from accountant.claims.price import Price
from accountant.conversions.outward import decimal_up
from accountant.errors import RequestInvalid
from accountant.filters.base import Budget
from accountant.filters.summed import SummedFilter

_C: Final = Decimal("28.04")
_HALVINGS: Final = 220  # bisection steps of a root: enough for the context's 60 digits
_NEAR: Final = 1e-12
"""Relative distance to the budget within which decimals decide: floats are right to 1e-14."""


class Advanced2016Filter(SummedFilter):
    """Admit while K <= epsilon and sum delta <= delta'' <= delta/2, for delta < 1/e.

    K is `advanced_2016_bound` at V, the sum of epsilon^2, and at the sum of
    epsilon (e^epsilon - 1)/2. Guarantees (epsilon, delta)-DP to DP and pDP claims. Source:
    Rogers 2016 Thm 5.1, ln(2/delta) inside the root (errata).

    Floats decide where K is clearly above or below the budget. Near the budget, decimals of 60
    digits decide, so that every machine decides alike.
    """

    name = "advanced_2016"
    reads = ("epsilon", "delta")
    sums = ("epsilon_squared", "kl_mean", "delta")

    def __init__(self, *, epsilon: str | None = None, delta: str = "0") -> None:
        """Take the guarantee, on which K depends.

        Raises: RequestInvalid: epsilon is missing or out of range, or delta not in (0, 1/e).
        """
        if epsilon is None:
            raise RequestInvalid("epsilon", "must be given for filter advanced_2016", None)
        self._epsilon = parse_in(
            epsilon, field="epsilon", minimum=MIN_EPSILON, maximum=MAX_EPSILON, zero=False
        )
        self._delta = check_delta(delta, "delta")
        with precise():
            if not self._delta or self._delta.ln() >= -1:
                rule = "must be above 0 and below 1/e for this filter"
                raise RequestInvalid("delta", rule, delta)
            c = -_C * self._delta.ln()
            self._scale = float(self._epsilon**2 / c)
            self._twice_log = float(2 * (2 / self._delta).ln())
        self._surely = float(self._epsilon) * (1 - _NEAR)
        self._surely_not = float(self._epsilon) * (1 + _NEAR)

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        with precise():
            return delta / 2

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        if 2 * Fraction(budget.delta_for_claims) > Fraction(self._delta):
            rule = "must be at most half of delta for this filter"
            raise RequestInvalid("delta_for_claims", rule, str(budget.delta_for_claims))
        with precise():
            # Each sum's limit holds where the other sum is smallest: V is at least 0, and the
            # mean is at least V/2 since e^x - 1 >= x.
            at_zero = advanced_2016_bound(
                time=Decimal(0), mean=Decimal(0), epsilon=self._epsilon, delta=self._delta
            )
            mean = below(self._epsilon - at_zero, digits=50)
        time = _longest_time(self._epsilon, self._delta)
        return budget_down(time), budget_down(mean), units_down(budget.delta_for_claims)

    def holds(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        if any(map(gt, spent, capacity)):
            return False
        time, mean = spent[0], spent[1]
        bound = self._about(time, mean)
        if bound <= self._surely:
            return True
        return bound <= self._surely_not and self._holds_exactly(int(time), int(mean))

    def _about(self, time: Units, mean: Units) -> float:
        moved = time / UNIT + self._scale
        log = 1 + math.log1p(time / UNIT / self._scale) / 2
        return mean / UNIT + math.sqrt(moved * log * self._twice_log)

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        each = self._excesses(capacity, spent, price)
        if max(each) > 0:
            return max(each)
        time, mean, _ = map(add, spent, price.amounts)
        before, after = self._about(spent[0], spent[1]), self._about(time, mean)
        remaining = float(self._epsilon) - before
        if after <= before:
            return each[2]
        return max(math.log((after - before) / remaining), each[2]) if remaining > 0 else math.inf

    def _holds_exactly(self, time: int, mean: int) -> bool:
        bound = advanced_2016_bound(
            time=Fraction(time, UNIT),
            mean=Fraction(mean, UNIT),
            epsilon=self._epsilon,
            delta=self._delta,
        )
        return bound <= self._epsilon

    def progress(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> Units:
        # V, plus the excess of the mean over V/2 as a part of the mean's capacity, in units of
        # V. K is concave in V and linear in the mean, so the sum stays within the capacity.
        time, mean = int(spent[0]), int(spent[1])
        maximum, most_mean = int(capacity[0]), int(capacity[1])
        above_least = max(0, 2 * mean - time) * maximum // (2 * most_mean)
        return min(maximum, time + above_least)


def advanced_2016_bound(
    *, time: Fraction | Decimal, mean: Fraction | Decimal, epsilon: Decimal, delta: Decimal
) -> Decimal:
    """Return K, a bound on the loss in nats, rounded up.

    mean + sqrt(2 (V + epsilon^2/c) (1 + ln(c V/epsilon^2 + 1)/2) ln(2/delta)), where
    c = 28.04 ln(1/delta).

    Args:
        time: V, the sum of epsilon_m^2, in nats squared.
        mean: the sum of epsilon_m (e^epsilon_m - 1)/2, in nats.
        epsilon: of the guarantee, in nats, > 0; K may only be compared with it.
        delta: of the guarantee, 0 < delta < 1.
    Source: Rogers 2016 Thm 5.1, ln(2/delta) inside the root (errata).
    """
    with precise():
        v = decimal_up(Fraction(time))
        scale = epsilon**2 / (-_C * delta.ln())
        log = 1 + (v / scale + 1).ln() / 2
        root = (2 * (v + scale) * log * (2 / delta).ln()).sqrt()
        return above(decimal_up(Fraction(mean)) + root, digits=50)


@lru_cache(maxsize=4096)
def _longest_time(epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the largest V at which K is within epsilon, the mean being V/2, rounded down."""
    with precise():
        low, high = Decimal(0), 2 * epsilon
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            bound = advanced_2016_bound(time=middle, mean=middle / 2, epsilon=epsilon, delta=delta)
            low, high = (middle, high) if bound <= epsilon else (low, middle)
        return low
