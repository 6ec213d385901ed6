"""The mean of the privacy loss of a pure mechanism, as Rogers 2016 bounds it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from accountant.amounts import above, precise
from accountant.conversions.outward import decimal_up, expm1


def mean_loss(epsilon: Fraction) -> Decimal:
    """Return epsilon (e^epsilon - 1) / 2 in nats, rounded up.

    The bound on the mean loss of an epsilon-DP mechanism in Rogers 2016 Thm 5.1 and 6.5;
    epsilon tanh(epsilon/2) is the tight one, but not what their proofs are written with.

    Args:
        epsilon: in nats, 0 or between 1e-12 and 1e4.
    """
    with precise():
        x = decimal_up(epsilon)
        return above(x * expm1(x, digits=55) / 2, digits=40)
