"""Gaussian refinement: a session of a rho, a sigma or an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from msgspec import UNSET

from accountant.amounts import UNIT, budget_down, cost_up, format_units
from accountant.claims import Brownian, Claim
from accountant.noise import GaussianRefinement, RandomBits
from accountant.noise.gaussian_refinement import added_mean
from accountant.questions.accuracy_first import (
    Level,
    count_halvings,
    in_range,
    levels_down,
    sqrt_up,
)
from accountant.questions.draw import Draw
from accountant.questions.error_at_confidence import (
    largest_refined_sigma,
    largest_rounded_sigma,
    refined_half_width,
)
from accountant.questions.laws.base import SessionLaw
from accountant.questions.noise import Noise
from accountant.questions.sensitivity import VectorStatistic

_DIGITS_OF_ERROR: Final = 6


class GaussianRefinementLaw(SessionLaw):
    """Answers with normal noise at falling variances: means of rounded normal numbers."""

    name = "gaussian_refinement"
    forms = ("rho", "sigma", "error")
    # Each level halves the variance, so that a refinement's mean has a binary digit more.
    digits_of_a_level = 1

    def session(self, statistic: VectorStatistic, noise: Noise) -> Draw | None:
        """Return a Brownian session whose finest answer has the noise wanted.

        The variance is rounded up where it is to cost at most rho, and down where the noise is to
        be at most sigma, or within an error. The claim's sensitivity is rounded up.

        Returns: None if no noise keeps the error.
        """
        wanted = _variance(statistic, noise)
        if wanted is None:
            return None
        first = None if noise.first is UNSET else Fraction(noise.first) ** 2
        halvings = count_halvings(wanted, first, noise, statistic.cells)

        def numbers(unit: int) -> tuple[int, int]:
            sensitivity = sqrt_up(statistic.l2_squared / unit**2)
            if noise.form == "rho":
                # Of the sensitivity that is charged, so that the claim costs at most rho.
                square = Fraction(sensitivity, UNIT) ** 2
                return sensitivity, cost_up(square / (2 * Fraction(noise.amount)))
            return sensitivity, budget_down(wanted / unit**2)

        unit, sensitivity, finest = in_range(numbers, halvings)
        claim = Brownian(
            variance=format_units(finest),
            sensitivity=format_units(sensitivity),
            first=format_units(finest << halvings),
        )
        variance = Fraction(finest, UNIT) * unit**2
        return Draw(
            statistic=statistic,
            law=self.name,
            claim=claim,
            variance=variance,
            first=variance * 2**halvings,
            unit=unit,
        )

    def levels(self, claim: Claim, unit: int) -> tuple[Level, ...]:
        """Return the variances and what each costs in rho."""
        assert isinstance(claim, Brownian), "a session of this law has no other claim"
        square = Fraction(str(claim.sensitivity)) ** 2
        return levels_down(
            Fraction(str(claim.first)),
            Fraction(claim.variance),
            unit=unit**2,
            cost=lambda variance: square / (2 * variance),
        )

    def samplers(
        self, steps: Sequence[int], levels: Sequence[Level], *, grid: Fraction, bits: RandomBits
    ) -> Sequence[Callable[[Fraction], Fraction]]:
        """Return what shows each number: each level draws noise of its own."""
        return [GaussianRefinement(each * grid, bits, step=grid).draw for each in steps]

    def on_grid(
        self, spread: Fraction, value: Fraction, before: tuple[Fraction, Fraction] | None
    ) -> Fraction:
        """Return the rounded normal number that a level adds to the mean."""
        return added_mean(spread, value, before)

    def half_width(self, spread: Fraction, *, confidence: Decimal, grid: Fraction) -> Fraction:
        """Return the error of a mean of rounded numbers."""
        return refined_half_width(variance=spread, confidence=confidence, grid=grid)

    def fixed_cost(
        self, statistic: VectorStatistic, *, error: Fraction, confidence: Decimal
    ) -> Fraction | None:
        """Return the rho of rounded Gaussian noise."""
        # Sigma is searched below 1e9, so a large sum is counted in larger units.
        unit: int = 10 ** max(0, len(str(math.floor(error))) - _DIGITS_OF_ERROR)
        sigma = largest_rounded_sigma(
            error=error / unit, confidence=confidence, grid=statistic.grid / unit
        )
        if sigma is None:
            return None
        return statistic.l2_squared / (2 * (Fraction(sigma) * unit) ** 2)


def _variance(statistic: VectorStatistic, noise: Noise) -> Fraction | None:
    if noise.form == "rho":
        return statistic.l2_squared / (2 * Fraction(noise.amount))
    if noise.form == "sigma":
        return Fraction(noise.amount) ** 2
    sigma = largest_refined_sigma(
        error=Fraction(noise.amount),
        confidence=Decimal(str(noise.confidence)),
        grid=statistic.grid,
    )
    return None if sigma is None else Fraction(sigma) ** 2
