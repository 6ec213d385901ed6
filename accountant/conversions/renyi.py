"""Renyi curves: D_alpha of a mechanism at an order alpha > 1, in nats, each rounded up.

Every curve bounds both directions of every pair of neighbours. A curve increases with the
order (van Erven and Harremoës 2014 Thm 3), so an order may be rounded up as well.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.conversions.renyi_arithmetic import (
    Real,
    cancelled_digits,
    exact_or_up,
    expm1,
    log1p,
    magnitude,
    up,
    working,
)

_LARGE: Final = 1000  # from this alpha epsilon on, e^(-alpha epsilon) is below the last digit


def randomized_response_renyi(order: Real, *, epsilon: Fraction) -> Decimal:
    """Return D_alpha of randomized response, which dominates every epsilon-DP mechanism.

    ln(cosh((alpha - 1/2) epsilon) / cosh(epsilon/2)) / (alpha - 1).

    Args:
        order: alpha > 1.
        epsilon: of pure DP, in nats, >= 0.
    Source: Mironov 2017 Prop 5 for randomized response; it dominates by data processing,
    docs/theory.md P1.
    """
    if not epsilon:
        return Decimal(0)
    with working():
        alpha, e = exact_or_up(order), exact_or_up(epsilon)
        less = alpha - 1
        if alpha * e < _LARGE:
            # cosh A / cosh B - 1 = 2 sinh((A+B)/2) sinh((A-B)/2) / cosh B keeps all digits
            # where the moment is close to 1.
            grown = _sinh(alpha * e / 2) * _sinh(less * e / 2)
            return up(log1p(2 * grown / _cosh(e / 2)) / less)
        # A - B + ln(1 + e^-2A) - ln(1 + e^-2B) never overflows.
        twice = (2 * alpha - 1) * e
        terms = less * e, log1p((-twice).exp()), -log1p((-e).exp())
        return up(sum(terms, Decimal(0)) / less)


def laplace_renyi(order: Real, *, epsilon: Fraction) -> Decimal:
    """Return D_alpha of Laplace noise, epsilon = sensitivity/scale.

    ln((alpha e^((alpha-1) epsilon) + (alpha-1) e^(-alpha epsilon)) / (2 alpha - 1)) / (alpha-1).

    Args:
        order: alpha > 1.
        epsilon: in nats, >= 0.
    Source: Mironov 2017 Prop 6.
    """
    if not epsilon:
        return Decimal(0)
    # Below epsilon = 1 the two terms cancel; about epsilon/2 of them is left.
    with working(cancelled_digits(epsilon) + 3):
        alpha, e = exact_or_up(order), exact_or_up(epsilon)
        less, both = alpha - 1, 2 * alpha - 1
        if alpha * e < _LARGE:
            grown = alpha * expm1(less * e) + less * expm1(-alpha * e)
            return up(log1p(grown / both) / less)
        # The logarithms of the moment's large exponential, its divisor and its small exponential.
        kept = less / alpha
        terms = less * e, -log1p(kept), log1p(kept * (-both * e).exp())
        return up(sum(terms, Decimal(0)) / less)


def bounded_range_renyi(order: Real, *, eta: Fraction) -> Decimal:
    """Return the largest D_alpha of an eta-bounded-range mechanism.

    The supremum, over t in [0, eta], of D_alpha where the loss is t or t - eta, is

        eta + (h(alpha) - h(alpha - 1) - h(1)) / (alpha - 1), h(s) = s ln((1 - e^(-s eta)) / s),

    which is `rdp_bounded_range_sup_t` of docs/theory.md at its stationary x.

    Args:
        order: alpha > 1.
        eta: in nats, >= 0; the exponential mechanism has eta = epsilon.
    Source: Dong, Durfee and Rogers 2020, whose worst pairs have two losses.
    """
    if not eta:
        return Decimal(0)
    # The result is about alpha eta^2/8, a difference of terms of about alpha ln(1/eta).
    guard = (
        2 * (cancelled_digits(eta) + max(0, magnitude(order)))
        + cancelled_digits(Fraction(order) - 1)
        + 10
    )
    with working(guard):
        alpha, e = exact_or_up(order), exact_or_up(eta)
        less = alpha - 1

        def h(s: Decimal) -> Decimal:
            return s * (-expm1(-s * e) / s).ln()

        return up(e + (h(alpha) - h(less) - h(Decimal(1))) / less)


def zcdp_renyi(order: Real, *, rho: Fraction) -> Fraction:
    """Return D_alpha of a rho-zCDP mechanism, exactly: alpha rho.

    Args:
        order: alpha > 1.
        rho: in nats, >= 0. Equality holds for a Gaussian, rho = sensitivity^2/(2 sigma^2).
    Source: Bun and Steinke 2016 Def 1.1 and Prop 1.6.
    """
    return Fraction(order) * rho


def _sinh(x: Decimal) -> Decimal:
    grown = expm1(x)
    return (grown + grown / (grown + 1)) / 2


def _cosh(x: Decimal) -> Decimal:
    grown = x.exp()
    return (grown + 1 / grown) / 2
