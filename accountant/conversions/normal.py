"""The normal distribution to any number of digits.

Every function returns a value whose relative error is below 10^-digits. It is a sum of positive
terms, or it lies between two convergents of a continued fraction. Ten guard digits cover the
rounding of at most a few thousand operations.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from accountant.conversions.outward import working

_GUARD = 10
# Below this x the power series needs fewer operations, above it the continued fraction.
_FRACTION_FROM = 5
_MAX_TERMS = 200_000


@lru_cache(maxsize=64)
def pi(digits: int) -> Decimal:
    """Return pi (Machin 1706: pi/4 = 4 arctan(1/5) - arctan(1/239))."""
    one: int = 10 ** (digits + _GUARD)
    with working(digits + _GUARD):
        return Decimal(16 * _arctan_inverse(5, one) - 4 * _arctan_inverse(239, one)) / one


def _arctan_inverse(n: int, one: int) -> int:
    """Return arctan(1/n) in units of 1/one; the error of each of the few terms is at most two."""
    power = total = one // n
    k = 1
    while power:
        power //= -n * n
        k += 2
        total += power // k
    return total


def odd_series(x: Decimal, *, digits: int) -> Decimal:
    """Return (Phi(x) - 1/2)/phi(x) = x + x^3/3 + x^5/(3 5) + x^7/(3 5 7) + ...

    Source: Abramowitz and Stegun 1964, 26.2.11. All terms have the sign of x. The
    last term is below 10^-digits of the sum, and each omitted one is below half of the
    term before it.
    """
    with working(digits + _GUARD):
        square, total, term, k = x * x, x, x, 1
        minimum = Decimal(10) ** -(digits + _GUARD)
        while abs(term) > abs(total) * minimum or square * 2 > k:
            k += 2
            term = term * square / k
            total += term
            if k > _MAX_TERMS:
                raise ArithmeticError(f"no normal distribution at {x:.6g}")
        return total


@lru_cache(maxsize=1024)
def mills(x: Decimal, *, digits: int) -> Decimal:
    """Return Mills' ratio (1 - Phi(x))/phi(x), for x >= -50."""
    if x < _FRACTION_FROM:
        # Where x > 0, the result is a difference of two terms of about e^(x^2/2).
        more = digits + (4 + int(x * x / 4) if x > 0 else 0)
        with working(more + _GUARD):
            middle = (pi(more) / 2).sqrt() * (x * x / 2).exp()
            return middle - odd_series(x, digits=more)
    # Laplace 1805: 1/(x + 1/(x + 2/(x + 3/(x + ...)))), Abramowitz and Stegun 26.2.14. Its
    # elements are positive, so the value lies between each two successive convergents.
    with working(digits + _GUARD):
        terms = 4 + int((digits / x) ** 2 * 2)
        while True:
            one, other = _fraction(x, x, terms), _fraction(x, x + (terms + 1) / x, terms)
            if abs(one - other) <= one.scaleb(-digits - 1):
                return (one + other) / 2
            terms *= 2


def _fraction(x: Decimal, tail: Decimal, terms: int) -> Decimal:
    for k in range(terms, 0, -1):
        tail = x + k / tail
    return 1 / tail


def log_density(x: Decimal, *, digits: int) -> Decimal:
    """Return ln phi(x), with an *absolute* error below 10^-digits."""
    more = digits + max(0, 2 * x.adjusted() + 2 if x else 0)
    with working(more + _GUARD):
        return -x * x / 2 - (2 * pi(more)).ln() / 2


def log_upper_tail(x: Decimal, *, digits: int) -> Decimal:
    """Return ln(1 - Phi(x)) for x >= -50, with an absolute error below 10^-digits."""
    density = log_density(x, digits=digits + 1)
    more = digits + max(0, 2 * x.adjusted() + 2 if x else 0)
    with working(more + _GUARD):
        return density + mills(x, digits=digits + 1).ln()


def central(x: Decimal, *, digits: int) -> Decimal:
    """Return Phi(x) - 1/2 for x >= 0."""
    if x > _FRACTION_FROM:
        with working(digits + _GUARD):
            return Decimal("0.5") - log_upper_tail(x, digits=digits).exp()
    with working(digits + _GUARD):
        return log_density(x, digits=digits + 1).exp() * odd_series(x, digits=digits + 1)
