"""A normal number, rounded to the nearest integer: exactly, though no machine can write it."""

from __future__ import annotations

import math
from fractions import Fraction

from accountant.noise.bernoulli import bernoulli_exp, bernoulli_exp_uniform, geometric
from accountant.noise.bits import RandomBits, Uniform, uniform_below
from accountant.noise.exact import exact_fraction


def rounded_normal(center: Fraction | int, variance: Fraction | int, bits: RandomBits) -> int:
    """Return the integer nearest to a normal number of this mean and variance.

    Digits are drawn until the rounding is decided, so it is that of all of them. A number in the
    middle of two integers has probability 0. docs/reference/noise.md has the proof.

    Raises: ValueError: the variance is not above 0.
    """
    center, variance = exact_fraction(center), exact_fraction(variance)
    if variance <= 0:
        raise ValueError(f"the variance must be above 0, got {variance}")
    whole, rest = half_normal(bits)
    sign = -1 if bits(1) else 1
    # round(c + s x) = sign * round(sign * c + sqrt(variance) * |x|), but for ties.
    twice, unit = 2 * sign * center.numerator + center.denominator, 2 * center.denominator
    square, divisor = variance.numerator * unit**2, variance.denominator

    def nearest(digits: int) -> int:
        """Return floor(sign * center + 1/2 + sqrt(variance) * (whole + digits / 2^length))."""
        # floor((m + y) / n) = floor((m + floor(y)) / n) for integers m and n, n > 0.
        size = (whole << rest.length) + digits
        return (twice + math.isqrt(square * size**2 // (divisor << 2 * rest.length))) // unit

    rest.extend(math.isqrt(variance.numerator // variance.denominator).bit_length() + 1)
    while (low := nearest(rest.digits)) != nearest(rest.digits + 1):
        rest.extend(rest.length + 1)
    return sign * low


def half_normal(bits: RandomBits) -> tuple[int, Uniform]:
    """Return k and u, where k + u is the size of a normal number of variance 1.

    Source: Karney 2016, Algorithm N.
    """
    while True:
        # k has probability proportional to exp(-k/2) exp(-k (k-1) / 2) = exp(-k^2 / 2).
        k = geometric(Fraction(2), bits)
        if not all(bernoulli_exp(1, 2, bits) for _ in range(k * (k - 1))):
            continue
        u = Uniform(bits)
        # exp(-(k + u)^2 / 2) = exp(-k^2 / 2) exp(-u (2k + u) / 2).
        if all(_accepts(k, u, bits) for _ in range(k + 1)):
            return k, u


def _accepts(k: int, u: Uniform, bits: RandomBits) -> bool:
    """Return True with probability exp(-u (2k + u) / (2k + 2))."""

    def happens() -> bool:
        """Return True with probability (2k + u) / (2k + 2)."""
        place = uniform_below(2 * k + 2, bits)
        return place < 2 * k or (place == 2 * k and Uniform(bits).is_below(u))

    return bernoulli_exp_uniform(u, happens, bits)
