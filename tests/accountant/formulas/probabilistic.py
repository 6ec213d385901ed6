"""The sharp constant behind (2 epsilon, delta)-pDP."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from accountant.amounts import precise
from accountant.conversions.outward import decimal_down, expm1

_ROUNDED_UP: Final = 1 + Fraction(1, 10**40)


def outside_twice_sharp(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return delta (e^epsilon + e^-epsilon)/(e^epsilon - 1), rounded up, also above 1.

    The largest P(|loss| > 2 epsilon) of any (epsilon, delta)-DP mechanism: the two tails are
    at most delta/(1 - e^-epsilon) and delta/(e^(2 epsilon) - e^epsilon), which add up to it,
    that is to delta (1 + e^(-2 epsilon))/(1 - e^-epsilon).

    Args:
        epsilon: in nats, > 0; delta: in [0, 1).
    Source: docs/theory.md section 1, whose proof bounds both tails by the first one.
    """
    with precise():
        squared = Fraction((-2 * decimal_down(epsilon)).exp())
        lost = -expm1(-decimal_down(epsilon), digits=50)
    return delta * (1 + squared) / Fraction(lost) * _ROUNDED_UP
