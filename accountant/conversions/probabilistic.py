"""From (epsilon, delta)-DP to probabilistic DP (pDP), which bounds the loss itself.

(epsilon, delta)-pDP: P(|loss| > epsilon) <= delta.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

from accountant.amounts import above, precise
from accountant.conversions.outward import decimal_down, expm1

_ROUNDED_UP = 1 + Fraction(1, 10**40)


def probabilistic_delta(*, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Return delta' such that (epsilon, delta)-DP implies (2 epsilon, delta')-pDP, rounded up.

    2 delta / (1 - e^-epsilon); None where that is 1 or more.
    Source: docs/theory.md section 1; the constants printed in Rogers 2016 Lemma 2.3 and
    Whitehouse 2023 Lemma 1 are too small (errata).
    """
    if not epsilon:
        return None
    bound = double_epsilon_tail(epsilon=epsilon, delta=delta)
    return bound if bound < 1 else None


def double_epsilon_tail(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a bound on P(|loss| > 2 epsilon), rounded up; it may exceed 1.

    The bound is 2 delta / (1 - e^-epsilon).

    Args:
        epsilon: in nats, > 0; delta: in [0, 1).
    Source: docs/theory.md section 1.
    """
    return 2 * delta / Fraction(_one_minus_decay(epsilon)) * _ROUNDED_UP


def _one_minus_decay(epsilon: Fraction) -> Decimal:
    """Return 1 - e^-epsilon to 50 digits, for epsilon rounded down."""
    # A smaller epsilon makes every bound larger, so rounding down is safe.
    with precise():
        return -expm1(-decimal_down(epsilon), digits=50)


def both_tails_delta(*, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Return delta of the pDP that P(loss > epsilon) <= delta implies, rounded up.

    delta (1 + e^-epsilon), for a bound that holds in both orders of each pair: the loss has at
    most e^-epsilon times as much mass below -epsilon as the neighbour's loss has above epsilon.
    None where that is 1 or more.
    Source: docs/theory.md section 4, "claims with delta > 0".
    """
    with precise():
        other = above((-Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp(), digits=40)
    bound = delta * (1 + Fraction(other))
    return bound if bound < 1 else None


def loss_shift(delta: Fraction) -> Decimal:
    """Return -ln(1 - delta), a claim's shift of odometer readings, rounded up.

    Args:
        delta: a probability, 0 < delta < 1.
    Source: docs/theory.md section 4, "claims with delta > 0".
    """
    complement = 1 - delta
    with precise() as context:
        # A smaller `complement` gives a larger shift, so it is rounded down. Near 1 the logarithm
        # still has 20 of 60 digits, since delta is at least 1e-40.
        context.rounding = ROUND_FLOOR
        return above(
            -(Decimal(complement.numerator) / Decimal(complement.denominator)).ln(), digits=18
        )
