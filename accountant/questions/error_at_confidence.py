"""From an error at a confidence to the amount of noise, and back, by the exact law of the noise.

Amounts have six digits, rounded to the side where the error is kept: noise down, cost up. Errors
are rounded up. All arithmetic is decimal and rounded outward, so that every machine derives the
same claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final

from accountant.amounts import CONTEXT, SMALLEST, UNIT, above, below
from accountant.conversions.normal import log_upper_tail
from accountant.conversions.outward import decimal_down, decimal_up, working

_STEPS: Final = 900_000
"""Decimals of six digits in a decade."""
_DIGITS: Final = 50
_SAFE: Final = 30  # digits that are certainly correct
_SUMMED_VARIANCE: Final = 10_000
"""Up to this variance, in steps of the grid, the discrete Gaussian is summed term by term."""
_LEAST_TERM: Final = Decimal("1e-45")

EPSILON_DECADES: Final = (-12, 3)
RHO_DECADES: Final = (-25, 6)
SIGMA_DECADES: Final = (-20, 9)
_QUANTILE_DECADES: Final = (-1, 1)


def confidence_of_each(confidence: Decimal, numbers: int) -> Decimal:
    """Return the confidence of each of some numbers with which all hold at once, rounded up.

    It is 1 - (1 - confidence)/numbers: the probabilities to fail add up (union bound).
    """
    # On the grid of 1e-40, so that the subtractions here and below are exact.
    failure = CONTEXT.divide(_failure(confidence), Decimal(numbers))
    return CONTEXT.subtract(Decimal(1), failure.quantize(SMALLEST, ROUND_FLOOR, CONTEXT))


def _failure(confidence: Decimal) -> Decimal:
    return CONTEXT.subtract(Decimal(1), confidence)


@lru_cache(maxsize=4096)
def laplace_half_width(*, scale: Fraction, confidence: Decimal, grid: Fraction) -> Fraction:
    """Return the error that discrete Laplace noise on a grid keeps with a confidence.

    It is the least multiple m of the grid with P(|noise| > m) <= 1 - confidence, or the one above.
    """
    # 2 a^(m+1)/(1 + a) <= failure for a = e^-t, t = grid/scale.
    t = decimal_down(grid / scale)
    with working(_DIGITS):
        logarithm = (2 / (_failure(confidence) * (1 + (-t).exp()))).ln()
        steps = logarithm / t
    return max(0, math.ceil(above(steps, digits=_SAFE)) - 1) * grid


@lru_cache(maxsize=4096)
def refined_half_width(*, variance: Fraction, confidence: Decimal, grid: Fraction) -> Fraction:
    """Return an error that a Gaussian refinement on a grid keeps with a confidence.

    Its answers are weighted means of rounded normals, and the weights add up to 1, so rounding
    moves them by at most half a step. The normal part has exactly this variance.
    """
    return Fraction(normal_quantile(confidence)) * sqrt_above(variance) + grid / 2


@lru_cache(maxsize=4096)
def normal_half_width(*, variance: Fraction, confidence: Decimal, grid: Fraction) -> Fraction:
    """Return an error that rounded or discrete Gaussian noise on a grid keeps with a confidence.

    It is a multiple of the grid, and of rounded noise the least one, or the one above.
    """
    # Either noise is above m at most as often as the normal one is above m and half a step: of
    # the discrete Gaussian by docs/theory.md P17.
    half, deviation = Fraction(1, 2), sqrt_above(variance)
    width = Fraction(normal_quantile(confidence)) * deviation
    steps = max(0, math.ceil(width / grid - half))
    # The quantile has six digits, rounded up, so that fewer steps may keep the confidence, too.
    low = max(-1, steps - 2 - steps // 50_000)
    while steps - low > 1:
        middle = (low + steps) // 2
        is_kept = _normal_keeps((middle + half) * grid / deviation, _failure(confidence))
        low, steps = (low, middle) if is_kept else (middle, steps)
    return steps * grid


@lru_cache(maxsize=4096)
def discrete_gaussian_half_width(
    *, variance: Fraction, confidence: Decimal, grid: Fraction
) -> Fraction:
    """Return the error that discrete Gaussian noise on a grid keeps with a confidence.

    It is the least multiple of the grid up to a variance of 10,000 squared steps, as
    `least_gaussian_rho` has it, so an answer keeps the error that it was asked with. Above it is
    that of the normal law.
    """
    steps = normal_half_width(variance=variance, confidence=confidence, grid=grid) // grid
    of_steps, allowed = decimal_up(variance / grid**2), _failure(confidence)
    if of_steps <= _SUMMED_VARIANCE:
        while steps and above(_discrete_tail(of_steps, steps - 1), digits=_SAFE) <= allowed:
            steps -= 1
    return steps * grid


def choice_error(
    *, scale: Fraction, candidates: int, confidence: Decimal, grid: Fraction
) -> Fraction:
    """Return by how much the score of a choice is at most below the best one, with a confidence.

    Args:
        scale: of the exponential mechanism, in the scores' units.
        grid: on whose multiples the scores are.
    """
    if candidates == 1:
        return Fraction(0)
    # docs/theory.md P17: scale ln((candidates - 1) confidence/(1 - confidence)).
    with working(_DIGITS):
        logarithm = ((candidates - 1) * confidence / _failure(confidence)).ln()
    return max(Fraction(0), Fraction(above(logarithm, digits=_SAFE)) * scale // grid * grid)


def sqrt_above(value: Fraction) -> Fraction:
    """Return a little more than a square root: 1e-40 at the most."""
    return Fraction(math.isqrt(math.ceil(value * UNIT**2)) + 1, UNIT)


@lru_cache(maxsize=1024)
def normal_quantile(confidence: Decimal) -> Decimal:
    """Return the least z of six digits with P(|N(0, 1)| > z) <= 1 - confidence."""
    keeps = partial(_normal_keeps, allowed=_failure(confidence))
    found = _least(lambda z: keeps(Fraction(z)), *_QUANTILE_DECADES)
    assert found is not None, "confidences end below 1 - 1e-15"
    return found


@lru_cache(maxsize=1024)
def least_laplace_epsilon(
    *, error: Fraction, confidence: Decimal, grid: Fraction, l1: Fraction
) -> Decimal | None:
    """Return the least epsilon of discrete Laplace noise of scale l1/epsilon that keeps an error.

    Returns: None if it is above 1e3.
    """
    keeps = partial(
        _laplace_keeps, steps=error // grid, ratio=grid / l1, allowed=_failure(confidence)
    )
    return _least(keeps, *EPSILON_DECADES)


@lru_cache(maxsize=1024)
def least_gaussian_rho(
    *, error: Fraction, confidence: Decimal, grid: Fraction, l2_squared: Fraction
) -> Decimal | None:
    """Return the least rho of discrete Gaussian noise of variance l2^2/(2 rho) that keeps an error.

    Returns: None if it is above 1e6.
    """
    keeps = partial(
        _gaussian_keeps,
        steps=error // grid,
        ratio=l2_squared / (2 * grid**2),
        allowed=_failure(confidence),
    )
    return _least(keeps, *RHO_DECADES)


@lru_cache(maxsize=1024)
def largest_rounded_sigma(
    *, error: Fraction, confidence: Decimal, grid: Fraction
) -> Decimal | None:
    """Return the largest sigma of rounded Gaussian noise that keeps an error.

    Returns: None if it is not between 1e-20 and 1e9.
    """
    # The rounded noise is above the error where the noise is above the middle of two steps.
    return _largest_sigma((error // grid + Fraction(1, 2)) * grid, confidence)


@lru_cache(maxsize=1024)
def largest_refined_sigma(
    *, error: Fraction, confidence: Decimal, grid: Fraction
) -> Decimal | None:
    """Return the largest sigma of a Gaussian refinement's answer that keeps an error.

    Returns: None if it is not between 1e-20 and 1e9.
    """
    # As in `refined_half_width`: rounding takes half a step of the error.
    limit = error - grid / 2
    return _largest_sigma(limit, confidence) if limit > 0 else None


def _largest_sigma(limit: Fraction, confidence: Decimal) -> Decimal | None:
    """Return the largest sigma with P(|N(0, sigma^2)| > limit) <= 1 - confidence."""
    allowed = _failure(confidence)

    def breaks(sigma: Decimal) -> bool:
        return not _normal_keeps(limit / Fraction(sigma), allowed)

    found = _least(breaks, *SIGMA_DECADES)
    if found is None or found == Decimal(10) ** SIGMA_DECADES[0]:
        return None
    return Context(prec=6).next_minus(found)


def _least(holds: Callable[[Decimal], bool], first: int, last: int) -> Decimal | None:
    """Return the least decimal of six digits in [10^first, 10^last] from which on a rule holds."""
    low, high = 0, (last - first) * _STEPS
    if not holds(_nth(high, first)):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(_nth(middle, first)) else (middle + 1, high)
    return _nth(low, first)


def _nth(number: int, first: int) -> Decimal:
    decade, step = divmod(number, _STEPS)
    return Decimal(step + 100_000).scaleb(decade + first - 5)


def _laplace_keeps(epsilon: Decimal, *, steps: int, ratio: Fraction, allowed: Decimal) -> bool:
    # P(K = k) = a^|k| (1 - a)/(1 + a), a = e^-t, t = grid/scale: P(|K| > m) = 2 a^(m+1)/(1 + a).
    t = decimal_down(ratio * Fraction(epsilon))
    with working(_DIGITS):
        a = (-t).exp()
        tail = 2 * (-t * (steps + 1)).exp() / (1 + a)
    return above(tail, digits=_SAFE) <= allowed


def _gaussian_keeps(rho: Decimal, *, steps: int, ratio: Fraction, allowed: Decimal) -> bool:
    variance = decimal_up(ratio / Fraction(rho))  # in steps of the grid
    if variance <= _SUMMED_VARIANCE:
        return above(_discrete_tail(variance, steps), digits=_SAFE) <= allowed
    # Canonne, Kamath and Steinke 2020: P(K >= m + 1) <= P(N(0, variance) >= m) for m >= 0.
    with working(_DIGITS):
        deviation = variance.sqrt()
    return steps > 0 and _normal_keeps(
        Fraction(steps) / Fraction(above(deviation, digits=40)), allowed
    )


def _discrete_tail(variance: Decimal, steps: int) -> Decimal:
    """Return P(|K| > steps) of the discrete Gaussian: terms e^(-j^2/(2 variance)) over their sum.

    Each term is the last one times a factor that falls by e^(-1/variance). What is left out is
    below the integral over it, variance/j times the last term.
    """
    with working(_DIGITS):
        term, factor = Decimal(1), (-1 / (2 * variance)).exp()
        fall = factor * factor
        within, beyond, j = Decimal(1), Decimal(0), 0
        while term > _LEAST_TERM:
            j += 1
            term *= factor
            factor *= fall
            if j <= steps:
                within += 2 * term
            else:
                beyond += 2 * term
        beyond += 2 * term * (1 + variance / j)
        return beyond / (within + beyond)


def _normal_keeps(deviations: Fraction, allowed: Decimal) -> bool:
    """Tell whether P(|N(0, 1)| > deviations) is certainly at most `allowed`."""
    log_tail = log_upper_tail(decimal_down(deviations), digits=_SAFE)
    with working(_DIGITS):
        limit = (allowed / 2).ln()
        return log_tail + Decimal(1).scaleb(-_SAFE + 1) <= below(limit, digits=_SAFE)
