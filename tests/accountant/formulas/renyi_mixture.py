"""What several Renyi orders certify together (docs/theory.md P5b)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from accountant.conversions.renyi_arithmetic import (
    Real,
    exact_or_down,
    exact_or_up,
    expm1,
    log1p,
    magnitude,
    up,
    working,
)

_HALVINGS: Final = 100
_APART: Final = Decimal("1e-25")  # where the slope's sign stands clear of its last digits


def mixture_delta(
    epsilon: Decimal,
    *,
    orders: Sequence[Decimal],
    weights: Sequence[Real],
    spent: Sequence[Real],
) -> Decimal:
    """Return the delta that weighted Renyi orders certify at epsilon, rounded up.

        sup over l > epsilon of (1 - e^(epsilon-l)) / sum_j w_j e^((alpha_j-1)(l-S_j)).

    With x = l - epsilon, its logarithm is concave: ln(1 - e^-x) less a logarithm of a sum of
    exponentials. So it lies below its tangent, and from a point left of the maximum to one
    right of it the tangent bounds it: ln G(x) <= ln G(low) + g(low) (high - low).

    Args:
        epsilon: in nats, > 0.
        orders: alpha_j > 1; of the same length k as what follows.
        weights: w_j > 0, their sum at most 1.
        spent: S_j, the sums of D_{alpha_j}, in nats, >= 0.
    Source: docs/theory.md P5b (own derivation).
    """
    with working():
        sums = [exact_or_up(s) for s in spent]
        largest = max(
            (abs(epsilon - s) + 1) * a + 1 / (a - 1) for s, a in zip(sums, orders, strict=True)
        )
    with working(max(0, magnitude(largest)) + 10):
        terms = _Terms(
            epsilon,
            tuple(a - 1 for a in orders),
            tuple(exact_or_down(w).ln() for w in weights),
            tuple(exact_or_up(s) for s in spent),
        )
        # The slope is 0 where 1/(e^x - 1) is an average of the alpha_j - 1.
        low, high = log1p(1 / max(terms.powers)), log1p(1 / min(terms.powers))
        for _ in range(_HALVINGS):
            middle = (low * high).sqrt()
            low, high = (middle, high) if terms.slope(middle) > 0 else (low, middle)
        low, high = low * (1 - _APART), high * (1 + _APART)
        maximum = terms.log_ratio(low) + terms.slope(low) * (high - low)
        return up(maximum.exp())


@dataclass(frozen=True, slots=True)
class _Terms:
    """The summands, by the powers alpha_j - 1, the logarithms of weights, and the sums."""

    epsilon: Decimal
    powers: tuple[Decimal, ...]
    log_weights: tuple[Decimal, ...]
    spent: tuple[Decimal, ...]

    def log_ratio(self, x: Decimal) -> Decimal:
        """Return ln G at l = epsilon + x."""
        return (-expm1(-x)).ln() - sum(self._each(x), Decimal(0)).ln()

    def slope(self, x: Decimal) -> Decimal:
        """Return its derivative, which decreases."""
        each = self._each(x)
        weighted = sum((p * term for p, term in zip(self.powers, each, strict=True)), Decimal(0))
        return 1 / expm1(x) - weighted / sum(each, Decimal(0))

    def _each(self, x: Decimal) -> list[Decimal]:
        return [
            (log + p * (x + self.epsilon - s)).exp()
            for p, log, s in zip(self.powers, self.log_weights, self.spent, strict=True)
        ]
