"""The optimal composition of k times randomized response, and the largest k within a delta.

k mechanisms of one pure epsilon are together (target, delta)-DP with

    delta = sum_j C(k,j) p^j (1-p)^(k-j) (1 - e^(target - (2j-k) epsilon))_+,

p = e^epsilon/(1 + e^epsilon), and with no smaller delta (Kairouz, Oh and Viswanath 2015 Thm 3.3).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from accountant.conversions.gdp import gdp_capacity
from accountant.conversions.normal import pi
from accountant.conversions.outward import working

_DIGITS: Final = 80
_MARGIN: Final = Decimal("1e-60")
"""Of the masses that are added up: logarithms of 1e10 leave 70 of 80 digits, and 1e5 products of
the terms before take at most six more."""
_OMITTED: Final = Decimal("1e-62")
_MIN: Final = Decimal("1e-900000")  # for what is not 0, but smaller than any Decimal

_EXACT_BELOW: Final = 1000
_BERNOULLI: Final = tuple(
    Fraction(over, under)
    for over, under in (
        *((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)),
        *((43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730)),
    )
)
"""B_2 to B_24. Stirling's series errs by less than its next term, from 1000 on 3e-72."""


def composed_delta(*, mechanisms: int, epsilon: Decimal, target: Decimal) -> Decimal:
    """Return the least delta at which k mechanisms of pure epsilon are (target, delta)-DP.

    Rounded up, by less than 1e-59 of the probability of a loss above the target; exactly 0 where
    no loss is above it. Takes about 20 sqrt(k) steps of 1 us.

    Args:
        mechanisms: k >= 0.
        epsilon: of each mechanism, in nats, >= 0.
        target: epsilon of the composition, in nats, >= 0.
    Source: the module's formula.
    """
    k = mechanisms
    if not epsilon or Fraction(epsilon) * k <= Fraction(target):
        return Decimal(0)
    # The fewest high outcomes whose loss (2j-k) epsilon is above the target.
    first = (k + math.floor(Fraction(target) / Fraction(epsilon)) + 2) // 2
    with working(_DIGITS):
        down = (-epsilon).exp()
        start = max(first, min(k, int((k + 1) / (1 + down))))  # the likeliest of them
        log_mass = _log_choose(k, start) - (k - start) * epsilon - k * (1 + down).ln()
        own = log_mass.exp()
        other = (log_mass + target - (2 * start - k) * epsilon).exp()
        up_own, up_other = _above(own, other, k - start, start + 1, 1 / down, down)
        low_own, low_other = _above(own, other, start, k - start + 1, down, 1 / down, start - first)
        mass = own + up_own + low_own
        # The analyst's gain is each mass less e^target times that of the neighbour.
        less = other + up_other + low_other
        return max(_MIN, mass - less + mass * _MARGIN)


def most_composed(*, epsilon: Decimal, target: Decimal, delta: Decimal, maximum: int) -> int | None:
    """Return the largest k at which k mechanisms of pure epsilon are (target, delta)-DP.

    Never too large, since each delta is rounded up. 562 for epsilon = 0.01 under (1, 1e-6).

    Args:
        epsilon: in nats, > 0.
        target: in nats, >= 0.
        delta: 0 <= delta < 1.
        maximum: the largest k that is looked for.
    Returns: None where more than `maximum` fit.
    """

    def fits(k: int) -> bool:
        # More mechanisms never have a smaller delta: an observer may ignore the further ones.
        return composed_delta(mechanisms=k, epsilon=epsilon, target=target) <= delta

    low = high = _guess(epsilon, target, delta, maximum)
    step = 1
    if fits(low):
        high = low + step
        while fits(high):
            if high > maximum:
                return None
            step *= 2
            low, high = high, min(high + step, maximum + 1)
    else:
        low = max(0, high - step)
        while low and not fits(low):
            step *= 2
            low, high = max(0, low - step), low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _guess(epsilon: Decimal, target: Decimal, delta: Decimal, maximum: int) -> int:
    """Return about the largest k: the one whose losses vary as those of the Gaussian that fits."""
    if not delta or not target or epsilon > 2:
        return min(maximum, 1 + int(target / epsilon))
    mu = gdp_capacity(epsilon=target, delta=delta)
    return max(1, min(maximum, int((mu * Decimal(math.cosh(epsilon / 2)) / epsilon) ** 2)))


def _above(
    own: Decimal,
    other: Decimal,
    rest: int,
    taken: int,
    grow_own: Decimal,
    grow_other: Decimal,
    steps: int | None = None,
) -> tuple[Decimal, Decimal]:
    """Return the sums of two rows of binomial masses beyond a term of each, term by term.

    The first sum is rounded up, the second one down, where the rest is too small to be added.

    Args:
        own, other: the masses of the term; those of `other` are never larger.
        rest, taken: the next mass is (left / taken) times a factor, and so on with left - 1 and
            taken + 1.
        grow_own, grow_other: these factors.
        steps: how many terms there are, by default `rest`.
    """
    sum_own = sum_other = Decimal(0)
    negligible = own * _OMITTED
    for i in range(rest if steps is None else steps):
        quotient = Decimal(rest - i) / (taken + i)
        before = own
        own = own * quotient * grow_own
        other = other * quotient * grow_other
        if own < negligible and own < before:
            # The quotients fall, so the rest is at most a geometric series.
            return sum_own + own / (1 - own / before), sum_other
        sum_own += own
        sum_other += other
    return sum_own, sum_other


def _log_choose(n: int, k: int) -> Decimal:
    return _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)


@lru_cache(maxsize=1024)
def _log_factorial(n: int) -> Decimal:
    """Return ln n! to 80 digits, or, for n up to 1e9, with an error below 1e-69 (Stirling)."""
    with working(_DIGITS):
        if n < _EXACT_BELOW:
            return Decimal(math.factorial(n)).ln()
        x = Decimal(n)
        total = (x + Decimal("0.5")) * x.ln() - x + (2 * pi(_DIGITS)).ln() / 2
        power = 1 / x
        for i, number in enumerate(_BERNOULLI, 1):
            factor = number / (2 * i * (2 * i - 1))
            total += Decimal(factor.numerator) / factor.denominator * power
            power /= x * x
        return total
