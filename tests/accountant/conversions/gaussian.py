"""Gaussian DP by mpmath: written from docs/theory.md section 1 and P6, not from our code."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath

DIGITS = 60


def real(value: str | int | Decimal | Fraction) -> mpmath.mpf:
    """Return a number to 700 digits, so that what it is compared with decides."""
    fraction = Fraction(value)
    with mpmath.workdps(700):
        return mpmath.mpf(fraction.numerator) / fraction.denominator


def upper_tail(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def rest(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Return 1 - delta_mu(epsilon)."""
    x = epsilon / mu - mu / 2
    return upper_tail(-x) + mpmath.exp(epsilon) * upper_tail(x + mu)


def delta(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Return delta_mu(epsilon) to about 60 digits, whatever its two terms lose."""
    x = epsilon / mu - mu / 2
    lost = mpmath.log10(1 + (abs(x) + 1) * (1 + 1 / mu)) * 2
    if x < 0:
        lost += x * x / 4  # delta is near 1: its tails are behind that many digits
    with mpmath.workdps(DIGITS + 20 + int(lost)):
        return upper_tail(epsilon / mu - mu / 2) - mpmath.exp(epsilon) * upper_tail(
            epsilon / mu + mu / 2
        )


def residue(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf | None:
    """Return m' of P6 by bisection and Newton's method, None where the rule refuses."""
    with mpmath.workdps(DIGITS + 40 + int(mu * mu / 8 + epsilon)):
        grown = mpmath.exp(epsilon)
        if upper_tail(-mu / 2) < grown / (1 + grown):
            return None
        target = (1 + grown) * upper_tail(-mu / 2) - grown
        low, high = mpmath.mpf(0), mu
        x = mu / 2
        for _ in range(2000):
            value = delta(x, epsilon) - target
            low, high = (low, x) if value > 0 else (x, high)
            slope = mpmath.npdf(epsilon / x - x / 2)
            moved = x - value / slope if slope else low
            if not low < moved < high:
                moved = (low + high) / 2
            if abs(moved - x) <= mpmath.mpf(10) ** -(DIGITS + 20) * x:
                return moved
            x = moved
    raise AssertionError(f"no root for {mu}, {epsilon}")


def pure_cost(square: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf | None:
    """Return m^2 - m'^2, None where the rule refuses."""
    with mpmath.workdps(DIGITS + 40):
        left = residue(mpmath.sqrt(square), epsilon)
        return None if left is None else square - left * left
