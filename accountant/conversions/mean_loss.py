"""The bound of Rogers 2016 on the mean privacy loss of a pure mechanism."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from accountant.amounts import above, precise
from accountant.conversions.outward import decimal_up, expm1


def mean_loss(epsilon: Fraction) -> Decimal:
    """Return epsilon (e^epsilon - 1) / 2 in nats, rounded up.

    The bound on the mean loss of an epsilon-DP mechanism in Rogers 2016 Thm 5.1 and 6.5. The
    tight bound is epsilon tanh(epsilon/2), but their proofs use this one.

    Args:
        epsilon: in nats, 0 or between 1e-12 and 1e4.
    """
    with precise():
        x = decimal_up(epsilon)
        return above(x * expm1(x, digits=55) / 2, digits=40)
