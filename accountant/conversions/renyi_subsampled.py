"""The Renyi curve of a Gaussian on a Poisson sample of the units, rounded up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from accountant.conversions.renyi import zcdp_renyi
from accountant.conversions.renyi_arithmetic import (
    Real,
    cancelled_digits,
    exact_or_up,
    expm1,
    log1p,
    up,
    working,
)

MAX_TERMS: Final = 4096
"""The largest order with a sum; orders above it are charged as without sampling."""
_MAX: Final = 10**15  # a moment with a larger exponent is charged as without sampling
_PARTS: Final = 8  # of the way from order 1 to 2, at each of which a bound is computed
_BELOW_TWO: Final = 1536  # terms that take as long as those bounds


def terms(order: Decimal) -> int:
    """Return how many terms `subsampled_gaussian_renyi` sums, half a microsecond each."""
    below = int(order)
    if below == 1:
        return _BELOW_TWO
    if order > MAX_TERMS - 1:
        return 0
    return below if order == below else 2 * below + 1


def subsampled_gaussian_renyi(order: Real, *, rate: Fraction, noise: Fraction) -> Real:
    """Return D_alpha of a Gaussian on a Poisson sample, for neighbours by add or remove.

    An order between integers gets the chord of (alpha - 1) D_alpha, which is convex (the
    logarithm of a moment); one below 2 that of bounds at 9/8, 10/8 and so on. An order above
    `MAX_TERMS` is charged as without sampling: an upper bound, since sampling is post-processing
    of the pair without it.

    Args:
        order: alpha > 1.
        rate: q, the probability that a unit is in the sample, independently, 0 to 1.
        noise: s, standard deviation over l2 sensitivity, > 0.
    Source: Mironov, Talwar and Zhang 2019 Thm 5 (the direction that dominates) and section
    3.3 (integer orders); below order 2 docs/theory.md, section 1.
    """
    plain = zcdp_renyi(order, rho=1 / (2 * noise**2))
    below = int(order)
    if not rate:
        return Fraction(0)
    with working():
        alpha = exact_or_up(order)
        if exact_or_up(rate) >= 1 or alpha > MAX_TERMS - 1 or alpha * exact_or_up(plain) > _MAX:
            return plain
        if below == 1:
            log_moment = _below_two(alpha, rate, noise)
            sampled = up(log_moment / (alpha - 1))
            return sampled if Fraction(sampled) <= plain else plain
        part = alpha - below
        log_moment = part * _log_moment(below + 1, rate, noise) if part else Decimal(0)
        log_moment += (1 - part) * _log_moment(below, rate, noise)
        sampled = up(log_moment / (alpha - 1))
    return sampled if Fraction(sampled) <= plain else plain


@lru_cache(maxsize=4096)
def _log_moment(order: int, rate: Fraction, noise: Fraction) -> Decimal:
    """Return ln sum_k C(a,k) (1-q)^(a-k) q^k e^(k(k-1)/(2s^2)), rounded up; 0 for order 1.

    The binomial terms alone sum to 1, so this is ln(1 + sum_{k>=2} C(a,k) ... (e^... - 1)),
    a sum of positive terms: nothing cancels, and exponents of 18 digits never overflow.
    """
    if order == 1:
        return Decimal(0)
    with working():
        inverse = exact_or_up(1 / noise**2)
    # e^(k(k-1)/(2s^2)) - 1 loses digits where s is large; 4096 factors lose another 8.
    with working(cancelled_digits(inverse) + 10):
        q, inverse = exact_or_up(rate), exact_or_up(1 / noise**2)
        odds = q / (1 - q)
        step = inverse.exp()
        # The term of k = 2; each further term follows from the one before it.
        mass = order * (order - 1) / Decimal(2) * odds**2 * (1 - q) ** order
        moment, growth = Decimal(0), step
        grown = step
        for k in range(2, order + 1):
            moment += mass * (grown - 1)
            mass *= odds * (order - k) / (k + 1)
            growth *= step
            grown *= growth
        return up(log1p(moment))


def _below_two(alpha: Decimal, rate: Fraction, noise: Fraction) -> Decimal:
    """Return an upper bound on (alpha - 1) D_alpha, 1 < alpha < 2: the chord of `_eighths`."""
    slopes = _eighths(rate, noise)
    place = _PARTS * (alpha - 1)
    below = int(place)
    part, before = place - below, slopes[below - 1] * below if below else Decimal(0)
    return ((1 - part) * before + part * slopes[below] * (below + 1)) / _PARTS


@lru_cache(maxsize=4096)
def _eighths(rate: Fraction, noise: Fraction) -> tuple[Decimal, ...]:
    """Return an upper bound on D_alpha at 9/8, ..., 15/8 and 2, each no more than the next.

    The least of two bounds on the moment, and of what bounds a larger order:

        1 + alpha (alpha-1)/2 (1-q)^(alpha-2) q^2 (e^(1/s^2) - 1)
        1 + q^alpha e^(alpha (alpha-1)/(2 s^2))

    Source: docs/theory.md, section 1, "Below order 2".
    """
    with working():
        q, inverse = exact_or_up(rate), exact_or_up(1 / noise**2)
        chi_square = q**2 * expm1(inverse)
        log_in, log_out = q.ln(), log1p(-q)
        found = [up(_log_moment(2, rate, noise))]
        for eighth in range(_PARTS - 1, 0, -1):
            less = Decimal(eighth) / _PARTS
            order = 1 + less
            small = order * less / 2 * ((order - 2) * log_out).exp() * chi_square
            large = (order * log_in + order * less / 2 * inverse).exp()
            found.append(min(found[-1], up(log1p(min(small, large)) / less)))
        return tuple(reversed(found))
