"""The relative-error rule: when a noisy count is accurate enough to stop."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt

_FINE = 10**20


@dataclass(frozen=True, slots=True)
class RelativeError:
    """Stop when y >= c s (1 + alpha)/alpha, s being the scale of the noise in y.

    Then |y - f| <= c s implies |y - f| <= alpha f, because f >= y - c s >= c s / alpha. The rule
    depends only on released answers, so a stop by it costs nothing. The rule does not promise
    that the noise stays within c s: that fails with the probability of so large a noise, given
    that the test passed. Source: docs/theory.md section 5; Rogers 2023 section 7.

    Attributes:
        alpha: the required relative error, > 0.
        c: the assumed bound on the error, in scales of the noise, > 0.
    """

    alpha: Fraction
    c: Fraction

    def __post_init__(self) -> None:
        if self.alpha <= 0 or self.c <= 0:
            raise ValueError(f"alpha and c must be above 0, got {self.alpha} and {self.c}")

    def threshold(self, scale: Fraction) -> Fraction:
        """Return the least answer that passes, in query units, exactly."""
        return self.c * scale * (1 + self.alpha) / self.alpha

    def passes(self, answer: float, scale: Fraction) -> bool:
        """Tell whether an answer with noise of this scale passes, by an exact comparison."""
        return bool(self.threshold(scale) <= answer)


@lru_cache(maxsize=4096)
def deviation(variance: Fraction) -> Fraction:
    """Return sqrt(variance), rounded up to 20 decimals; exact where those suffice.

    Rounding up is safe: a test that passes would also pass with the exact root.
    """
    if variance <= 0:
        raise ValueError(f"the variance must be above 0, got {variance}")
    # ceil(sqrt(x)) is 1 + floor(sqrt(ceil(x) - 1)) for x > 0.
    scaled = variance * _FINE**2
    whole = -(-scaled.numerator // scaled.denominator)
    return Fraction(isqrt(whole - 1) + 1, _FINE)
