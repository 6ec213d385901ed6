"""Whether several Renyi orders certify delta together, decided alike on every machine.

Let B_j be the budget of order alpha_j for its part w_j delta, S_j the sum of its divergences,
u = l - epsilon, and

    E_j(u) = exp(alpha_j (u + ln(1 - 1/alpha_j)) - (alpha_j - 1) (S_j - B_j)).

The rule of docs/theory.md P5b, sup over l of (1 - e^(epsilon-l))_+ / h(l, S) <= delta, is that

    K(u) = sum_j E_j / (alpha_j - 1) - (e^u - 1) >= 0   for every u > 0,

and it is *proved* where at a single real u, whichever it is,

    sum_j E_j / (alpha_j - 1) - (sum_j E_j - 1)^2 >= e^u - 1.

So an inexact u costs utility and never validity. The best u is the root of sum_j E_j = 1. The
logarithm of that sum is convex and increases, so Newton's method, begun at the least root of a
single term, comes down to it from the right; it takes at most 58 steps to 1e-25.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from math import exp, expm1, inf, log
from typing import Final

from accountant.amounts import UNIT, Units, precise
from accountant.conversions.outward import log1p

_DIGITS: Final = 60
# Above u = 17, at most 16 terms of at most 1/0.000001 each are less than e^u - 1.
_MAX_U: Final = 17
# Newton's method ends where the square of its error is below the margin. The margin exceeds the
# rounding errors of 60 digits: 1e-50 at the smallest order.
_CLOSE: Final = Decimal("1e-25")
_MARGIN: Final = Decimal("1e-45")
_MAX_ROUNDS: Final = 100
# The relative error of a sum of floats: ten times what rounding to 2^-53 and a library whose
# `exp` is off by a few last digits can make of it, for an exponent of alpha u.
_ERROR: Final = 1e-11
_ERROR_BY_EXPONENT: Final = 1e-14
_ROUNDS_IN_FLOATS: Final = 30
_ROUNDS_OF_REACH: Final = 12
_CLOSE_IN_FLOATS: Final = 1e-6  # the error after such a step is about its square


class RenyiMixtureRule:
    """The rule for some orders; what belongs to a budget comes as distances from it.

    Args:
        orders: alpha_1 < alpha_2 < ..., each from 1.000001 on, at most 16.
    """

    def __init__(self, orders: Sequence[Decimal]) -> None:
        with precise():
            powers = [order - 1 for order in orders]
            # ln(1 - 1/alpha) = -ln(1 + 1/(alpha - 1)), which keeps its digits for large alpha.
            logs = [-log1p(1 / power, digits=_DIGITS) for power in powers]
            starts = [order * each for order, each in zip(orders, logs, strict=True)]
        self._exact = tuple(zip(orders, powers, starts, strict=True))
        self._floats = tuple((float(a), float(p), float(c)) for a, p, c in self._exact)
        self._steep = float(orders[-1])

    def proves(self, over: Sequence[Units], near: float = inf) -> bool:
        """Tell whether the sums are proved to certify delta together.

        Floats decide what is clear, decimals what is not. Both prove what they say, so that they
        never disagree, whatever the machine (docs/theory.md P5b).

        Args:
            over: S_j - B_j, in units of 1e-40; `INFINITE` where a claim has no curve.
            near: about the best u, where it is known; it only saves time.
        """
        if min(over) <= 0:  # P5a: this order alone
            return True
        clear = self.by_floats(over, near)
        return self.by_decimals(over) if clear is None else clear

    def by_floats(self, over: Sequence[Units], near: float = inf) -> bool | None:
        """As `proves` where each sum is over its own budget, None where it is not clear."""
        terms = [
            (a, p, c - p * (s / UNIT)) for (a, p, c), s in zip(self._floats, over, strict=True)
        ]
        maximum = min([-line / a for a, _, line in terms])
        if maximum > _MAX_U:
            return False
        u = min(near, maximum)
        for _ in range(_ROUNDS_IN_FLOATS):
            total = mean = slope = 0.0
            for a, p, line in terms:
                each = exp(line + a * u)
                total += each
                mean += each / p
                slope += a * each
            grown, error = expm1(u), _ERROR + _ERROR_BY_EXPONENT * self._steep * abs(u)
            slack, apart = error * (mean + abs(grown)), abs(total - 1) + error * total
            if mean + slack < grown:
                return False
            if mean - slack - grown > apart * apart:
                return True
            if abs(total - 1) <= error:
                return None
            # A step from the left of the root may go far beyond it: the root is below `maximum`.
            u = min(maximum, u - log(total) * total / slope) if total else maximum
        return None

    def by_decimals(self, over: Sequence[Units]) -> bool:
        """As `proves` where each sum is over its own budget."""
        with precise():
            terms = [
                (a, p, c - p * (Decimal(int(s)) / UNIT))
                for (a, p, c), s in zip(self._exact, over, strict=True)
                if s != inf
            ]
            u = min(-line / a for a, _, line in terms)
            if u > _MAX_U:
                return False
            for _ in range(_MAX_ROUNDS):
                each = [(line + a * u).exp() for a, _, line in terms]
                total = sum(each, Decimal(0))
                if abs(total - 1) <= _CLOSE:
                    break
                slope = sum(a * e for (a, _, _), e in zip(terms, each, strict=True))
                u -= total.ln() * total / slope
            mean = sum((e / p for (_, p, _), e in zip(terms, each, strict=True)), Decimal(0))
            return mean - (total - 1) ** 2 - (u.exp() - 1) >= _MARGIN

    def reach(self, over: Sequence[Units], amounts: Sequence[Units]) -> tuple[float, float]:
        """Return about the largest s at which over + s amounts is proved, and the best u there.

        It guides searches, whose results are checked. Each step replaces the logarithm of the
        sum by its tangent: that is a single order, whose budget has a closed form.

        Args:
            over: as of `proves`, of any sign.
            amounts: > 0.
        """
        terms = [
            (a, p, c - p * (s / UNIT), p * (x / UNIT), p * (s / UNIT))
            for (a, p, c), s, x in zip(self._floats, over, amounts, strict=True)
            if s + x != inf
        ]
        if not terms:
            return 0.0, inf
        s = max([-room / grows for _, _, _, grows, room in terms])
        u = inf
        for _ in range(_ROUNDS_OF_REACH):
            u = min([u, *[(s * grows - line) / a for a, _, line, grows, _ in terms]])
            total = mean = slope = along = at = 0.0
            for a, p, line, grows, _ in terms:
                each = exp(line - s * grows + a * u)
                total += each
                slope += a * each
                along += grows * each
                mean += each / p
                at += grows * each / p
            power = total / mean
            # ln of the sum, less ln c of order 1 + power, at its best l.
            left = log(mean) + math.log1p(power) + power * (math.log1p(1 / power) - u) - u
            gain = left * mean / at
            s += gain
            u -= (log(total) * total - gain * along) / slope
            if abs(gain) <= _CLOSE_IN_FLOATS * abs(s):
                break
        return s, u
