"""Strong composition: Kairouz, Oh and Viswanath's simple bound for unequal parameters."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from accountant.amounts import above, precise
from research.comparators.runs import Runs, decimal_above, log_inverse, tight_mean, variance


def strong_epsilon(runs: Runs, *, delta: Decimal) -> Decimal:
    """Return sum of e (exp(e)-1)/(exp(e)+1) + sqrt(2 V ln(1/delta)), V = sum e^2, rounded up.

    Args:
        delta: delta' of the bound itself, in (0, 1); `strong_delta` returns the whole.
    Returns: epsilon in nats.
    Raises: ValueError: delta is out of range.
    Source: Smith, lecture 10, Thm 1.1; for unequal parameters: Whitehouse 2023 eq. (2), after
        Kairouz, Oh and Viswanath 2015. As a filter it would be valid (docs/theory.md P3),
        as an odometer it is not.
    """
    runs = tuple(runs)
    with precise():
        root = (2 * decimal_above(variance(runs)) * log_inverse(delta)).sqrt()
        return above(decimal_above(tight_mean(runs)) + root, digits=40)


def strong_delta(deltas: Iterable[tuple[Decimal, int]], *, delta: Decimal) -> Fraction:
    """Return the whole delta of strong composition: delta' + sum of the mechanisms' deltas.

    Args:
        deltas: each delta with its number of mechanisms.
        delta: delta', as in `strong_epsilon`.
    Source: Smith, lecture 10, Thm 1.1.
    """
    return sum((Fraction(each) * count for each, count in deltas), Fraction(delta))
