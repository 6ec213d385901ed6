"""The best possible composition of (epsilon, delta)-DP mechanisms fixed in advance, of any sizes.

The exact value is a sum over all subsets (computing it is #P-complete), so the privacy loss is
kept on a grid, from above: a loss between two cells is split between them so that each hockey-stick
of the pair is at least what it was, and every float is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from accountant.amounts import precise

MAX_MECHANISMS: Final = 20_000
MIN_TARGET, MAX_TARGET = Decimal("0.001"), Decimal(100)

_CELLS: Final = 4_096  # up to the target
_LOWEST, _HIGHEST = -3 * _CELLS, 5 * _CELLS
_ULP: Final = 2.0**-52
# Smaller probabilities are dropped, and all of them counted once more at the end: sums of floats
# that underflow take a hundred times as long.
_SMALLEST: Final = 1e-250
_DROPPED: Final = 2 * (_HIGHEST - _LOWEST + 1) * _SMALLEST
_Law = npt.NDArray[np.float64]


Parts = Iterable[tuple[Decimal | Fraction, Decimal | Fraction, int]]
"""Epsilon, in nats, and delta of mechanisms, and how many times each runs."""


class _Composition(NamedTuple):
    """Some mechanisms together.

    Attributes:
        law: probability of each loss, in cells of the grid, from above.
        complement: product of 1 - delta, from below.
        epsilon: their sum, exactly.
    """

    law: _Law
    complement: float
    epsilon: Fraction
    mechanisms: int


class OptimalComposition:
    """Adds up mechanisms of (epsilon, delta), each fixed in advance, and returns their delta.

    The result is rounded up, and exceeds the optimum by the grid's error: about as much as
    if the loss had 1.5e-8 target^2 more variance for each mechanism.

    Args:
        target: epsilon of the whole, in nats, 0.001 to 100.

    Attributes:
        delta: least delta at which they are (target, delta)-DP together, rounded up.

    Raises: ValueError: the target is out of range.
    Source: docs/theory.md section 6, Murtagh and Vadhan 2016 Thm 1.5: with the hockey-stick H of
        the randomized responses of the epsilons, delta is 1 - (1 - H) prod(1 - delta_i). The
        split: `_split_loss`.
    """

    def __init__(self, target: Decimal) -> None:
        if not MIN_TARGET <= target <= MAX_TARGET:
            raise ValueError(f"target must be {MIN_TARGET} to {MAX_TARGET}, got {target}")
        self._target = Fraction(target)
        self._step = self._target / _CELLS
        law: _Law = np.zeros(_HIGHEST - _LOWEST + 1)
        law[-_LOWEST] = 1.0
        self._now = _Composition(law, 1.0, Fraction(0), 0)
        self.delta = 0.0
        above = np.arange(_CELLS + 1, _HIGHEST + 1) * float(self._step)
        # What is beyond the grid is counted as revealed: (1 - e^(target - L))_+ < 1.
        lost = np.append(-np.expm1(float(target) - above[:-1]), 1.0)
        self._lost: _Law = np.minimum(1.0, lost * (1 + 8 * _ULP))

    @property
    def mechanisms(self) -> int:
        """How many were added."""
        return self._now.mechanisms

    def fits(self, parts: Parts, maximum: Decimal) -> bool:
        """Add mechanisms if all that there are then are (target, most)-DP; tell whether.

        Raises: ValueError: an argument is out of range, or there are too many mechanisms.
        """
        then = self._now
        for epsilon, delta, times in parts:
            if epsilon < 0 or not 0 <= delta <= 1:
                raise ValueError(f"epsilon must be at least 0 and delta 0 to 1: {epsilon}, {delta}")
            if then.mechanisms + times > MAX_MECHANISMS:
                raise ValueError(f"there are more than {MAX_MECHANISMS:,} mechanisms")
            for _ in range(times):
                then = self._with(then, Fraction(epsilon), Fraction(delta))
        found = self._delta_of(then)
        if Fraction(found) > Fraction(maximum):
            return False
        self._now, self.delta = then, found
        return True

    def _with(self, now: _Composition, epsilon: Fraction, delta: Fraction) -> _Composition:
        law: _Law = np.zeros_like(now.law)
        for cells, mass in _split_loss(epsilon, self._step):
            _add_shifted(law, now.law, cells, mass)
        law[law < _SMALLEST] = 0.0
        complement = now.complement
        if delta:
            complement *= math.nextafter(float(1 - delta), 0.0) * (1 - _ULP)
        return _Composition(law, complement, now.epsilon + epsilon, now.mechanisms + 1)

    def _delta_of(self, composed: _Composition) -> float:
        # Where the epsilons add up to no more than the target, the hockey-stick is 0.
        stick = self._stick(composed) if composed.epsilon > self._target else 0.0
        # 1 - (1 - H) kept, which grows with H and falls with kept.
        lost = (1 - composed.complement) * (1 + 4 * _ULP)
        return min(1.0, (lost + min(1.0, 1 - lost * (1 - 8 * _ULP)) * stick) * (1 + 8 * _ULP))

    def _stick(self, composed: _Composition) -> float:
        law, count = composed.law, composed.mechanisms
        # Each cell is a sum of 4 products for each mechanism, and the whole one of _HIGHEST cells.
        margin = 1 + (12 * count + 2 * _HIGHEST) * _ULP
        lost = float(law[_CELLS - _LOWEST + 1 :] @ self._lost)
        return (lost + count * _DROPPED) * margin


def _add_shifted(law: _Law, before: _Law, cells: int, mass: float) -> None:
    """Add a law that was moved by some cells, times a probability.

    What falls off the lower end stays on it, and only ever becomes a larger loss. What is beyond
    the upper end is revealed: the last cell holds it, and nothing comes back from there.
    """
    law[-1] += mass * before[-1]
    before = before[:-1]
    size = len(before)
    gone = before[max(0, size - cells) :] if cells > 0 else before[: min(size, -cells)]
    stays = mass * float(gone.sum()) * (1 + size * _ULP)
    if cells > 0:
        law[cells:-1] += mass * before[: max(0, size - cells)]
        law[-1] += stays
    else:
        law[: max(0, size + cells)] += mass * before[min(size, -cells) :]
        law[0] += stays


@lru_cache(maxsize=1_024)
def _split_loss(epsilon: Fraction, step: Fraction) -> tuple[tuple[int, float], ...]:
    """Return (cells, probability) of randomized response on a grid, rounded up.

    A loss l between the cells a and b = a + step has the part (1 - e^(a-l))/(1 - e^-step) of its
    probability on b and the rest on a. As a function of e^epsilon the hockey-stick of a pair is
    convex and piecewise linear; this is its interpolation between cells, nowhere below it.
    Source: the interpolation is that of Doroshenko et al. 2022.
    """
    found: list[tuple[int, float]] = []
    with precise():
        size = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        more = 1 / (1 + (-size).exp())
        for loss, mass in ((epsilon, more), (-epsilon, 1 - more)):
            cells = math.floor(loss / step)
            rest = loss - cells * step
            if not rest:
                found.append((cells, _up(mass)))
                continue
            part = (1 - _exp(-rest)) / (1 - _exp(-step))
            found += [(cells + 1, _up(mass * part)), (cells, _up(mass * (1 - part)))]
    return tuple(found)


def _exp(value: Fraction) -> Decimal:
    return (Decimal(value.numerator) / Decimal(value.denominator)).exp()


def _up(value: Decimal) -> float:
    """Return a float above a value that is right to 30 digits."""
    return math.nextafter(float(value) * (1 + 2 * _ULP), 2.0)
