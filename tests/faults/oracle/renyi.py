"""Curves of Renyi divergence: docs/theory.md, section 1."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import mpmath

from tests.faults.oracle.amounts import Exact, Real, fraction, mp

_wide: Final = mpmath.MPContext()
_wide.dps = 150
"""Small divergences are differences of terms near 1."""
_MOST_ORDER: Final = 4095


def _real(value: Exact) -> Real:
    exact = fraction(value)
    return _wide.mpf(exact.numerator) / exact.denominator


def curve(claim: dict[str, str], epsilon: Fraction | None, rho: Exact, order: str) -> Exact:
    """Return the divergence at an order of a claim without a delta."""
    alpha = Fraction(order)
    kind = claim["type"]
    if epsilon is None:
        plain = alpha * rho
        if kind != "subsampled_gaussian" or not rho or Fraction(claim["rate"]) == 1:
            return plain
        return plain if alpha > _MOST_ORDER else _narrow(_sampled(claim, rho, alpha), plain)
    if not epsilon:
        return Fraction(0)
    if kind == "laplace":
        return _narrow(_laplace(_real(alpha), _real(epsilon)))
    if kind == "bounded_range":
        return _narrow(_bounded_range(_real(alpha), _real(epsilon)))
    return _narrow(_response(_real(alpha), _real(epsilon)))


def _narrow(value: Real, most: Fraction | None = None) -> Exact:
    if most is not None and fraction(value) >= most:
        return most
    return mp.mpf(value)


def _response(alpha: Real, e: Real) -> Real:
    grown = 2 * _wide.sinh(alpha * e / 2) * _wide.sinh((alpha - 1) * e / 2) / _wide.cosh(e / 2)
    return _wide.log1p(grown) / (alpha - 1)


def _laplace(alpha: Real, e: Real) -> Real:
    grown = alpha * _wide.expm1((alpha - 1) * e) + (alpha - 1) * _wide.expm1(-alpha * e)
    return _wide.log1p(grown / (2 * alpha - 1)) / (alpha - 1)


def _bounded_range(alpha: Real, eta: Real) -> Real:
    def h(s: Any) -> Real:
        return s * _wide.log(-_wide.expm1(-s * eta) / s)

    return eta + (h(alpha) - h(alpha - 1) - h(_wide.mpf(1))) / (alpha - 1)


def _sampled(claim: dict[str, str], rho: Exact, alpha: Fraction) -> Real:
    """Return the chord between the integer orders around `alpha`, below 2 between eighths."""
    below = int(alpha)
    if below == 1:
        return _below_two(claim["rate"], fraction(rho), alpha)
    part = _real(alpha - below)
    total = (1 - part) * _moment(claim["rate"], fraction(rho), below)
    if part:
        total += part * _moment(claim["rate"], fraction(rho), below + 1)
    return total / (_real(alpha) - 1)


def _below_two(rate: str, rho: Fraction, alpha: Fraction) -> Real:
    ends = [Fraction(int(8 * alpha) + more, 8) for more in (0, 1)]
    part = _real(8 * (alpha - ends[0]))
    least = [_real(end - 1) * _least(rate, rho, end) for end in ends]
    return ((1 - part) * least[0] + part * least[1]) / _real(alpha - 1)


@lru_cache(maxsize=1024)
def _least(rate: str, rho: Fraction, order: Fraction) -> Real:
    """Return the least bound on the divergence that is valid at an eighth, or at one above it."""
    if order == 2:
        return _moment(rate, rho, 2)
    if order == 1:
        return _wide.mpf(0)
    q, a = _real(Fraction(rate)), _real(order)
    second = (1 - q) ** (a - 2) * q**2 * _wide.expm1(2 * _real(rho))
    grown = min(a * (a - 1) / 2 * second, q**a * _wide.exp(a * (a - 1) * _real(rho)))
    above = _least(rate, rho, order + Fraction(1, 8))
    return min(above, _wide.log1p(grown) / (a - 1))


@lru_cache(maxsize=1024)
def _moment(rate: str, rho: Fraction, order: int) -> Real:
    q, total, weight = _real(Fraction(rate)), _wide.mpf(0), _wide.mpf(1)
    weight = (1 - q) ** order
    for k in range(order + 1):
        if k >= 2:
            total += weight * _wide.expm1(k * (k - 1) * _real(rho))
        weight = weight * q / (1 - q) * (order - k) / (k + 1)
    return _wide.log1p(total)
