"""Advanced composition as it was first proved."""

from __future__ import annotations

from decimal import Decimal

from accountant.amounts import above, precise
from research.comparators.runs import Runs, decimal_above, log_inverse, printed_mean, variance


def advanced_2010_epsilon(runs: Runs, *, delta: Decimal) -> Decimal:
    """Return sum of e (exp(e) - 1) + sqrt(2 V ln(1/delta)), V = sum e^2, rounded up.

    Args:
        delta: delta' of the bound itself, in (0, 1), without the mechanisms' deltas.
    Returns: epsilon in nats.
    Raises: ValueError: delta is out of range.
    Source: Rogers 2016 Thm 2.10, after Dwork, Rothblum and Vadhan 2010.
    """
    runs = tuple(runs)
    with precise():
        root = (2 * decimal_above(variance(runs)) * log_inverse(delta)).sqrt()
        return above(2 * decimal_above(printed_mean(runs)) + root, digits=40)
