"""The residue of a Gaussian budget: pure and Gaussian mechanisms on one state."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import ClassVar, Final

from accountant.amounts import INFINITE, UNIT, Units, exact_cost
from accountant.claims.price import Price
from accountant.claims.promises import Promise
from accountant.conversions.residue_step import admits, pure_cost, pure_step, run_repeatedly
from accountant.filters.base import Budget, Filter, Parameter, Parameters
from accountant.filters.gdp_outside import GdpOutsideFilter, gaussian_capacity
from accountant.filters.summed import log_ratio
from accountant.fractional import whole_down, whole_up

Parts = tuple[tuple[Promise, int], ...]

# The filter charges the mechanisms of a batch up to this size one by one, each within 1e-12 of
# its root, and those of a larger batch many at a time, within 2e-6.
_SINGLY: Final = 1_000
_LOOSE: Final = 10**12
_LOOSE_LARGE: Final = 10**5
_WITHOUT_END: Final = 10**60
# A count of batches charges the last ones one by one: so many mechanisms, and at least so many
# batches.
_AT_THE_END: Final = 500
_TRIED: Final = 4

_MU_SQUARED, _DELTA, _PURE = range(3)


class GdpResidueFilter(Filter):
    """Admit while a residue m' of the Gaussian budget is left, and sum delta <= delta''.

    The state is m^2; it starts from the m with delta_m(epsilon_g) = delta'. A Gaussian
    mechanism takes mu^2 off it. An epsilon-DP one leads to the m' with
    delta_{m'}(epsilon) = (1 + e^epsilon) Phi(m/2) - e^epsilon; the filter refuses it where the
    right side is negative. The totals hold the spent part of m^2, in units of 1e-40. A mechanism
    of bounded range eta pays as an (eta/2)-DP one (P11). An (epsilon, delta)-DP claim pays as an
    epsilon-DP one, and its delta. Guarantees (epsilon_g, delta'' + (1 - delta'') delta')-DP, in
    any order, to claims of pure DP, bounded range, (epsilon, delta)-DP, Gaussian and Brownian
    mechanisms. Source: docs/theory.md P6, P11.
    """

    name = "gdp_residue"
    error_law = "rounded_gaussian"
    sums = ("mu_squared", "delta")
    parameters: ClassVar[Parameters] = {
        "outside": Parameter(
            "With gdp_residue: owners may record releases made elsewhere. Pure requests cost more.",
            example=True,
        )
    }

    @classmethod
    def of(cls, **values: bool) -> Filter:
        """Return the filter, or the one that can charge what owners record."""
        return GdpOutsideFilter() if values.get("outside") else cls()

    @property
    def needs(self) -> tuple[str, ...]:
        return ("mu_squared", "delta", "pure_epsilon")

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        return gaussian_capacity(budget)

    def accepts(self, price: Price) -> bool:
        if price.amounts[_DELTA] == INFINITE:
            return False
        if price.mechanisms == 1:
            return price.amounts[_MU_SQUARED] != INFINITE or price.amounts[_PURE] != INFINITE
        return all(
            worth.mu_squared is not None or worth.pure_epsilon is not None
            for worth, _ in price.parts
        )

    def charge(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> tuple[Units, ...] | None:
        """Return the spent totals after the claim, None if it does not fit.

        The filter charges a batch mechanism by mechanism, in its order; it charges more than
        1,000 pure mechanisms by a proved bound that exceeds the cost by at most about 2e-6 of it.
        """
        delta = spent[_DELTA] + price.amounts[_DELTA]
        if delta > capacity[_DELTA]:
            return None
        # A pure mechanism is charged by a state rounded down, since its cost falls as that grows.
        room = int(capacity[0]) - int(spent[0])
        if price.mechanisms == 1 or price.amounts[_MU_SQUARED] != INFINITE:
            mu_squared = price.amounts[_MU_SQUARED]
            fits = spent[0] + mu_squared <= capacity[0]
            cost = _cost(mu_squared if fits else INFINITE, price.amounts[_PURE], room)
        else:
            cost = _batch_cost(price.mechanisms, price.parts, room)
        return None if cost is None else (spent[0] + cost, delta)

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        mu_squared, delta, pure = price.amounts[:3]
        if price.mechanisms > 1 or mu_squared != INFINITE or pure == INFINITE or not pure:
            return self.charge(capacity, spent, price) is not None
        # To check that a root exists is faster than to find it.
        room = int(capacity[0]) - int(spent[0])
        return spent[_DELTA] + delta <= capacity[_DELTA] and admits(room, pure_step(int(pure)))

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        mu_squared, delta, pure = price.amounts[:3]
        room, delta_left = self.remaining(capacity, spent)
        if room < 0:  # a budget in force that is below what was spent
            return math.inf
        # A pure mechanism may run while tanh(epsilon/2) <= erf(m / sqrt 8).
        maximum = 2 * math.atanh(math.erf(math.sqrt(room / UNIT / 8))) if room < 200 * UNIT else 1e3
        own = min(log_ratio(mu_squared, room), log_ratio(pure, round(maximum * UNIT)))
        return max(own, log_ratio(delta, delta_left))

    def remaining(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> tuple[Units, ...]:
        """Return the state m^2, and the amount by which the sum of the deltas may still grow."""
        return capacity[0] - spent[0], capacity[1] - spent[1]

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another, None if any number does.

        The number provably fits. For single pure claims it is exact up to 1,000, and beyond
        that too small by at most about 2e-6 of it. For batches it is too small by at most a
        few, or by 1e-5 of it for batches of more than 1,000 mechanisms.
        """
        if not self.accepts(price):
            return 0
        room, delta = self.remaining(capacity, spent)
        maximum = int(delta // price.amounts[_DELTA]) if price.amounts[_DELTA] else _WITHOUT_END
        if price.amounts[_MU_SQUARED] != INFINITE:
            mu_squared = price.amounts[_MU_SQUARED]
            fits = min(maximum, int(room // mu_squared)) if mu_squared else maximum
        elif not any(worth.pure_epsilon or worth.mu_squared for worth, _ in price.parts):
            fits = maximum
        else:
            state = int(capacity[0]) - int(spent[0])
            fits = _count(price.mechanisms, price.amounts[:3], price.parts, state, maximum)
        return None if fits == _WITHOUT_END else fits


def _cost(mu_squared: Units, pure: Units, room: int) -> int | None:
    """Return the amount that one mechanism takes off m^2 = room, None if it does not fit.

    A mechanism that is both Gaussian and pure pays the smaller of its two costs: both are valid.

    Args:
        mu_squared: `INFINITE` where it is no Gaussian, or more than is left.
    """
    gaussian = None if isinstance(mu_squared, float) else mu_squared
    if pure == INFINITE:
        return gaussian
    cost = pure_cost(room, pure_step(int(pure))) if pure else 0
    if cost is None or gaussian is None:
        return gaussian if cost is None else cost
    return min(cost, gaussian)


def _batch_cost(mechanisms: int, parts: Parts, room: int) -> int | None:
    state = room
    singly = _SINGLY if mechanisms <= _SINGLY else 0
    for worth, times in parts:
        pure = INFINITE if worth.pure_epsilon is None else exact_cost(worth.pure_epsilon)
        if worth.mu_squared is not None:
            state -= exact_cost(worth.mu_squared) * times
            if whole_down(state) < 0:
                return None
        elif pure:
            if pure == INFINITE:
                return None
            step = partial(pure_cost, step=pure_step(int(pure)))
            state, done = run_repeatedly(whole_down(state), step, times, singly=singly)
            if done < times:
                return None
    return room - state


@lru_cache(maxsize=4096)
def _count(
    mechanisms: int, amounts: tuple[Units, ...], parts: Parts, room: int, maximum: int
) -> int:
    """Return how many times a claim with a pure part fits into m^2 = room."""
    if mechanisms == 1:
        cost = partial(_cost, amounts[_MU_SQUARED], amounts[_PURE])
        return run_repeatedly(room, cost, maximum, singly=_SINGLY)[1]
    return _count_batches(mechanisms, parts, room, maximum)


def _count_batches(mechanisms: int, parts: Parts, room: int, maximum: int) -> int:
    """Return how many times a batch fits, in a number of steps that grows as its logarithm.

    Each step takes as many batches as fit into half of the state at the cost that they have at
    the step's end. That cost is an upper bound, since costs fall as the state grows
    (docs/theory.md P10). It exceeds the true cost by about a twelfth of the batch's largest
    mechanism, since a cost at s is about epsilon^2 (1 + epsilon^2/(6 s)).
    """
    loose = _LOOSE if mechanisms <= _SINGLY else _LOOSE_LARGE
    state, done, part = room, 0, 2
    while done < maximum:
        each = _at_most(parts, state, loose)
        if each is None:
            return done
        if state // each * mechanisms <= _AT_THE_END:
            break
        low = state - state // part
        each = _at_most(parts, low, loose)
        if each is None:  # the batch does not fit at the step's end: take a smaller step
            part *= 2
            continue
        many = min(maximum - done, (state - low) // each)
        if not many:
            break
        state, done, part = state - many * each, done + many, 2
    for _ in range(min(maximum - done, max(_TRIED, _AT_THE_END // mechanisms))):
        # `charge` finds a state rounded down, too.
        cost = _batch_cost(mechanisms, parts, whole_down(state))
        if cost is None:
            break
        state, done = state - cost, done + 1
    return done


def _at_most(parts: Parts, state: int, loose: int) -> int | None:
    """Return a batch's largest cost that leaves at least `state`, None if `state` refuses it."""
    total = 0
    for worth, times in parts:
        if worth.mu_squared is not None:
            total += whole_up(exact_cost(worth.mu_squared) * times)
        elif worth.pure_epsilon:
            cost = pure_cost(state, pure_step(whole_up(exact_cost(worth.pure_epsilon))))
            if cost is None:
                return None
            total += (cost + cost // loose + 1) * times
    return total
