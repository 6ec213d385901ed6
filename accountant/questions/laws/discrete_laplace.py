"""Discrete Laplace noise: the first law of an epsilon and of an error."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from accountant.amounts import UNIT, format_units, units_down
from accountant.claims import Pure
from accountant.noise import RandomBits, discrete_laplace
from accountant.questions.draw import Draw
from accountant.questions.error_at_confidence import laplace_half_width, least_laplace_epsilon
from accountant.questions.laws.base import OneAnswerLaw
from accountant.questions.noise import Noise, units_of
from accountant.questions.sensitivity import VectorStatistic
from accountant.questions.sums_of_noise import NoiseTerm, laplace_sum_half_width


class DiscreteLaplaceLaw(OneAnswerLaw):
    """Noise k with probability proportional to e^(-|k|/scale), on the statistic's grid."""

    name = "discrete_laplace"
    forms = ("epsilon", "error")
    claim_type = Pure
    default_of = ("epsilon", "error")

    def derive(self, statistic: VectorStatistic, noise: Noise, share: Fraction) -> Draw:
        """Return the noise with a `pure` claim."""
        # On the grid |loss| <= l1/scale. Where l1 is one step it is randomized response, which
        # costs more than continuous Laplace noise: the claim is `pure`, never `laplace`.
        if noise.form == "error":
            found = least_laplace_epsilon(
                error=Fraction(noise.amount),
                confidence=Decimal(str(noise.confidence)),
                grid=statistic.grid,
                l1=statistic.l1,
            )
            units = units_of(found, noise)
        else:
            units = units_down(Fraction(noise.amount) * share)
        claim = Pure(epsilon=format_units(units))
        scale = statistic.l1 * UNIT / units
        return Draw(statistic=statistic, law=self.name, scale=scale, claim=claim)

    def half_width(self, spread: Fraction, *, confidence: Decimal, grid: Fraction) -> Fraction:
        """Return the error by the exact tail."""
        return laplace_half_width(scale=spread, confidence=confidence, grid=grid)

    def add(self, steps: int, spread: Fraction, *, grid: Fraction, bits: RandomBits) -> int:
        """Return a number with its noise."""
        return steps + discrete_laplace(spread / grid, bits)

    def sum_half_width(self, terms: Sequence[NoiseTerm], *, confidence: Decimal) -> Fraction:
        """Return the error of a sum of such noises."""
        return laplace_sum_half_width(terms, confidence=confidence)
