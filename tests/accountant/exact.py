"""What claims are worth, by mpmath to 80 digits: written from the theory, not from our code."""

from __future__ import annotations

from fractions import Fraction

import mpmath

from accountant import claims as c
from accountant.amounts import Units

DIGITS = 80
mpmath.mp.dps = DIGITS


def real(value: str | Fraction) -> mpmath.mpf:
    fraction = Fraction(value)
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def units(amount: Units) -> mpmath.mpf:
    """Return an amount of the grid, exactly."""
    return mpmath.mpf(int(amount)) / 10**40


def epsilon(claim: c.Claim) -> Fraction | None:
    """Return the epsilon of (epsilon, delta)-DP, None if the claim has none."""
    match claim:
        case c.Pure() | c.Approximate() | c.ExPost():
            return Fraction(claim.epsilon)
        case c.Laplace():
            return Fraction(claim.sensitivity) / Fraction(claim.scale)
        case c.BoundedRange():
            return Fraction(claim.eta)
        case _:
            return None


def delta(claim: c.Claim) -> Fraction:
    return Fraction(getattr(claim, "delta", "0"))


def rho(claim: c.Claim) -> mpmath.mpf:
    match claim:
        case c.Pure() | c.Approximate() | c.ExPost():
            e = real(claim.epsilon)
            return e * mpmath.tanh(e / 2)
        case c.Laplace():
            e = real(epsilon(claim) or Fraction(0))
            return e + mpmath.expm1(-e)
        case c.BoundedRange():
            return real(claim.eta) ** 2 / 8
        case c.Zcdp():
            return real(claim.rho)
        case c.Gdp():
            return real(claim.mu) ** 2 / 2
        case c.Gaussian():
            return real(claim.sensitivity) ** 2 / (2 * real(claim.sigma) ** 2)
        case c.Brownian():
            precision = 1 / real(claim.variance)
            if isinstance(claim.previous, str):
                precision -= 1 / real(claim.previous)
            return real(claim.sensitivity) ** 2 * precision / 2
    raise AssertionError(claim)


def intrinsic_time(claim: c.Claim) -> mpmath.mpf:
    if isinstance(claim, c.Pure | c.Approximate | c.ExPost):
        return real(claim.epsilon) ** 2
    return 2 * rho(claim)


def tight_capacity(eps: mpmath.mpf, d: mpmath.mpf) -> mpmath.mpf:
    """Return the largest rho with delta'(rho, eps) <= d, by minimising over orders directly."""

    def log_delta(order: mpmath.mpf, r: mpmath.mpf) -> mpmath.mpf:
        less = order - 1
        return less * (order * r - eps) + order * mpmath.log1p(-1 / order) - mpmath.log(less)

    def best(r: mpmath.mpf) -> mpmath.mpf:
        # Convex in the order: golden-section search in its logarithm is robust.
        low, high = mpmath.mpf(-30), mpmath.mpf(30)
        g = (mpmath.sqrt(5) - 1) / 2
        for _ in range(150):
            a, b = high - g * (high - low), low + g * (high - low)
            if log_delta(1 + mpmath.exp(a), r) < log_delta(1 + mpmath.exp(b), r):
                high = b
            else:
                low = a
        return log_delta(1 + mpmath.exp((low + high) / 2), r)

    low, high = mpmath.mpf(0), eps
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if best(middle) <= mpmath.log(d) else (low, middle)
    return low
