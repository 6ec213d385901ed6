"""One answer, shown with less and less Gaussian noise, each time rounded exactly."""

from __future__ import annotations

from fractions import Fraction

from accountant.noise.bits import RandomBits
from accountant.noise.exact import exact_fraction
from accountant.noise.rounded_normal import rounded_normal


class GaussianRefinement:
    """Answers at falling variances, each chosen after the earlier answers.

    A level adds X_k = round(N(f, 1/p_k)) to the grid, where p_k is the precision that it adds,
    and shows the mean of X_1, ..., X_k with the weights p_1, ..., p_k. Their cost telescopes to
    that of the last variance: a `brownian` claim. Source: docs/theory.md sections 5 and P4.

    Args:
        value: f, exactly, in units of the answer.
        step: of the grid that each X_k is rounded to.
    """

    def __init__(
        self, value: Fraction | int, bits: RandomBits, *, step: Fraction | int = 1
    ) -> None:
        self._step = exact_fraction(step)
        self._center = exact_fraction(value) / self._step
        self._bits = bits
        self._precision = Fraction(0)
        self._total = Fraction(0)

    def draw(self, variance: str | Fraction | int) -> Fraction:
        """Return the answer at this variance, in squared units of the answer.

        Raises: ValueError: it is not above 0 and below the last one.
        """
        t = exact_fraction(variance)
        if t <= 0 or 1 / t <= self._precision:
            raise ValueError(f"the variance must be above 0 and below the last, got {variance}")
        added = 1 / t - self._precision
        rounded = rounded_normal(self._center, 1 / (added * self._step**2), self._bits)
        self._total += added * self._step * rounded
        self._precision = 1 / t
        return self._total * t


def added_mean(
    variance: Fraction, value: Fraction, before: tuple[Fraction, Fraction] | None
) -> Fraction:
    """Return the X_k that a level has added, from what was shown.

    Args:
        variance, value: of the level.
        before: those of the level before it, None for the first one.
    """
    if before is None:
        return value
    earlier, shown = before
    return (value / variance - shown / earlier) / (1 / variance - 1 / earlier)
