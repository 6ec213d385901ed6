"""From (epsilon, delta)-DP to a bound on the loss itself, (epsilon, delta)-pDP."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

from accountant.amounts import above, precise


def probabilistic_delta(*, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Return delta of the (2 epsilon, delta)-pDP that (epsilon, delta)-DP implies, rounded up.

    2 delta / (1 - e^-epsilon); None where that is no probability below 1.
    Source: docs/theory.md section 1; the constants printed in Rogers 2016 Lemma 2.3 and
    Whitehouse 2023 Lemma 1 are too small (errata).
    """
    if not epsilon:
        return None
    with precise() as context:
        context.rounding = ROUND_FLOOR  # a smaller epsilon makes the bound larger
        x = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        kept = 1 - (-x).exp()
    bound = 2 * delta / Fraction(kept) * (1 + Fraction(1, 10**40))
    return bound if bound < 1 else None


def loss_shift(delta: Fraction) -> Decimal:
    """Return -ln(1 - delta) rounded up: what a claim's delta adds to odometer readings.

    Args:
        delta: a probability, 0 < delta < 1.
    Source: docs/theory.md section 4, "claims with delta > 0".
    """
    kept = 1 - delta
    with precise() as context:
        # Less kept mass is a larger shift. Near 1 the logarithm keeps 20 digits of 60,
        # since delta is at least 1e-40.
        context.rounding = ROUND_FLOOR
        return above(-(Decimal(kept.numerator) / Decimal(kept.denominator)).ln(), digits=18)
