"""What claims are worth, by mpmath to 80 digits: written from the theory, not from our code."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

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


def response(claim: c.Claim) -> Fraction | None:
    """Return the epsilon of the randomized response that costs a Gaussian budget as much."""
    if isinstance(claim, c.BoundedRange):
        return Fraction(claim.eta) / 2  # docs/theory.md P11
    return epsilon(claim)


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


@cache
def renyi(claim: c.Claim, order: str) -> mpmath.mpf | None:
    """Return the Renyi divergence of a claim's worst pair, None if it has none."""
    if delta(claim):
        return None
    with mpmath.workdps(2 * DIGITS):
        alpha, e = real(order), real(epsilon(claim) or Fraction(0))
        less = alpha - 1
        match claim:
            case c.Laplace() if e:
                both = alpha * mpmath.exp(less * e) + less * mpmath.exp(-alpha * e)
                return mpmath.log(both / (alpha + less)) / less
            case c.BoundedRange() if e:
                grown, small = mpmath.exp(e), mpmath.exp(-less * e)
                x = less * (grown - small) / (alpha * (1 - small))
                rest = (grown - small - (1 - small) * x) / (grown - 1)
                return mpmath.log(x**less * rest) / less
            case c.SubsampledGaussian() if rho(claim):
                return _sampled(claim, order)
            case _ if epsilon(claim) is None:
                return alpha * rho(claim)
        return mpmath.log(mpmath.cosh((alpha - 0.5) * e) / mpmath.cosh(e / 2)) / less


def _sampled(claim: c.SubsampledGaussian, order: str) -> mpmath.mpf:
    """Return the binomial moment's, on its chord between integers: no more than unsampled.

    Below order 2 the chord is that of bounds at each eighth (docs/theory.md, section 1).
    """

    def log_moment(n: int) -> mpmath.mpf:
        q, twice_rho = real(claim.rate), 2 * rho(claim)
        return mpmath.log(
            mpmath.fsum(
                mpmath.binomial(n, k)
                * (1 - q) ** (n - k)
                * q**k
                * mpmath.exp(k * (k - 1) * twice_rho / 2)
                for k in range(n + 1)
            )
        )

    alpha, below = real(order), int(real(order))
    if alpha > 4095:
        return alpha * rho(claim)
    if below == 1:
        slope, eighths = log_moment(2), [log_moment(2)]
        for k in range(7, 0, -1):
            a, q, square = mpmath.mpf(8 + k) / 8, real(claim.rate), 2 * rho(claim)
            taylor = a * (a - 1) / 2 * (1 - q) ** (a - 2) * q**2 * mpmath.expm1(square)
            power = q**a * mpmath.exp(a * (a - 1) * square / 2)
            slope = min(slope, mpmath.log1p(min(taylor, power)) / (a - 1))
            eighths.append((a - 1) * slope)
        eighths = [mpmath.mpf(0), *reversed(eighths)]
        place = 8 * (alpha - 1)
        part = place - int(place)
        chord = (1 - part) * eighths[int(place)] + part * eighths[int(place) + 1]
        return min(chord / (alpha - 1), alpha * rho(claim))
    part = alpha - below
    above = part * log_moment(below + 1) if part else 0
    chord = ((1 - part) * log_moment(below) + above) / (alpha - 1)
    return min(chord, alpha * rho(claim))


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
