"""The Gaussian residue: docs/theory.md, P6 and P11, by an own equation with 60 digits."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from tests.faults.oracle.amounts import UNIT, Range, Real, cost_range, fraction, mp, real
from tests.faults.oracle.worth import Atom, adds, exact, response

SLACK: Final = Fraction(1, 10**12)
"""A pure mechanism's cost is within this of the root: docs/decisions/0012."""
_STEPS: Final = 60
MOST_SINGLY: Final = 1_000
"""A batch of more mechanisms is charged many at a time: see `NoExactPrice`."""


_MOST_EPSILON: Final = 100
"""Above it 60 digits do not tell the total variation from 1; no budget of a load has such room."""


class NoExactPrice(Exception):
    """A batch that the residue filter charges by a bound which is no closer than 2e-6."""


def delta_of(m: Real, e: Real) -> Real:
    """Return the delta with which m-GDP is (e, delta)-DP."""
    return mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)


def capacity(budget: str, own: Fraction) -> Real:
    """Return the m^2 with delta' at the budget."""
    e, goal = real(budget), real(own)
    low, high = mp.mpf(0), mp.mpf(1)
    while delta_of(high, e) < goal:
        low, high = high, high * 2
    x = (low + high) / 2
    for _ in range(_STEPS):
        value = delta_of(x, e) - goal
        low, high = (x, high) if value < 0 else (low, x)
        # The derivative of delta by m is the density at e/m - m/2.
        moved = x - value / mp.npdf(e / x - x / 2)
        if abs(moved - x) <= abs(x) * mp.mpf(10) ** -50:
            return moved**2
        x = moved if low < moved < high else (low + high) / 2
    return low**2


@lru_cache(maxsize=65_536)
def pure_cost(state: int, atom_epsilon: Fraction) -> Range | None:
    """Return the possible cost of an epsilon-DP mechanism to m^2; None if it may not run."""
    e, s = real(atom_epsilon), real(Fraction(state, UNIT))
    if not e:
        return 0, 0
    if state <= 0:  # below: a limit was lowered under what was used
        return None
    m = mp.sqrt(s)
    goal = (1 + mp.exp(e)) * mp.ncdf(m / 2) - mp.exp(e)
    if goal <= 0:
        return None
    low, high = mp.mpf(0), m
    t = s - e * e
    x = mp.sqrt(t) if t > 0 else m / 2
    for _ in range(_STEPS):
        value = delta_of(x, e) - goal
        low, high = (x, high) if value < 0 else (low, x)
        moved = x - value / mp.npdf(e / x - x / 2)
        if not low < moved < high:
            moved = (low + high) / 2
        if abs(moved - x) <= abs(x) * mp.mpf(10) ** -45:
            x = moved
            break
        x = moved
    cost = fraction(s - x * x) * UNIT
    return math.ceil(cost * (1 - Fraction(1, 10**25))), math.floor(cost * (1 + SLACK)) + 1


def voidable(parts: list[tuple[Atom, int]]) -> Range:
    """Return the possible cost of a claim that may be voided: of pure mechanisms as of Gaussians.

    The Gaussian that dominates an epsilon-DP mechanism has the same total variation:
    2 Phi(mu/2) - 1 = tanh(epsilon/2).
    """
    low: Any = 0
    high: Any = 0
    for atom, times in parts:
        least, most = adds(atom, "mu_squared")
        bound = response(dict(atom))
        if least == math.inf and bound is not None:
            least, most = _as_gaussian(bound)
        if math.inf in (low, least):
            return math.inf, math.inf
        low, high = low + least * times, high + most * times
    return low, high


@lru_cache(maxsize=65_536)
def _as_gaussian(bound: Fraction) -> Range:
    if bound > _MOST_EPSILON:
        return math.inf, math.inf
    mu = 2 * mp.sqrt(2) * mp.erfinv(mp.tanh(real(bound) / 2))
    return cost_range(mu**2 if bound else Fraction(0))


def charge(parts: list[tuple[Atom, int]], room: int | Fraction) -> Range | None:
    """Return the possible cost of a claim to m^2 = room; None if it does not fit.

    A pure mechanism finds the state rounded down to a unit.
    """
    if sum(times for _, times in parts) > MOST_SINGLY:
        raise NoExactPrice
    low: int | Fraction = 0
    high: int | Fraction = 0
    for atom, times in parts:
        gaussian = exact(atom, "mu_squared")
        bound = response(dict(atom))
        if gaussian != math.inf:
            least, most = adds(atom, "mu_squared")
            low, high = low + least * times, high + most * times
            if low > room:
                return None
        elif bound is None:
            return None
        else:
            if bound:
                low, high = math.ceil(low), math.ceil(high)
            for _ in range(times):
                cost = pure_cost(math.floor(room) - math.ceil(low), bound)
                if cost is None:
                    return None
                low, high = low + int(cost[0]), high + int(cost[1])
    # A cost that is above the root leaves less, and what is next costs a little more.
    return low, high + high // 10**11 if len(parts) > 1 or parts[0][1] > 1 else high
