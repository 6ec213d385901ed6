"""Normal noise, rounded to the grid: the first law of a sigma."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from accountant.amounts import UNIT, format_units, units_down
from accountant.claims import Gaussian
from accountant.noise import RandomBits, rounded_normal
from accountant.questions.accuracy_first import sqrt_up
from accountant.questions.draw import Draw
from accountant.questions.error_at_confidence import largest_rounded_sigma, normal_half_width
from accountant.questions.laws.base import OneAnswerLaw
from accountant.questions.noise import Noise, units_of
from accountant.questions.sensitivity import VectorStatistic
from accountant.questions.sums_of_noise import NoiseTerm, normal_sum_half_width


class RoundedGaussianLaw(OneAnswerLaw):
    """Normal noise around a number, rounded to the statistic's grid."""

    name = "rounded_gaussian"
    forms = ("rho", "sigma", "error")
    claim_type = Gaussian
    default_of = ("sigma",)

    def derive(self, statistic: VectorStatistic, noise: Noise, share: Fraction) -> Draw:
        """Return the noise with a `gaussian` claim: rounding is post-processing."""
        sensitivity = sqrt_up(statistic.l2_squared)
        if noise.form == "rho":
            rho = Fraction(noise.amount) * share
            sigma = sqrt_up(Fraction(sensitivity, UNIT) ** 2 / (2 * rho))
        elif noise.form == "error":
            found = largest_rounded_sigma(
                error=Fraction(noise.amount),
                confidence=Decimal(str(noise.confidence)),
                grid=statistic.grid,
            )
            sigma = units_of(found, noise)
        else:
            sigma = units_down(noise.amount)
        claim = Gaussian(sigma=format_units(sigma), sensitivity=format_units(sensitivity))
        variance = Fraction(sigma, UNIT) ** 2
        return Draw(statistic=statistic, law=self.name, variance=variance, claim=claim)

    def half_width(self, spread: Fraction, *, confidence: Decimal, grid: Fraction) -> Fraction:
        """Return the error by the tail of the normal noise."""
        return normal_half_width(variance=spread, confidence=confidence, grid=grid)

    def add(self, steps: int, spread: Fraction, *, grid: Fraction, bits: RandomBits) -> int:
        """Return a number with its noise."""
        return rounded_normal(steps, spread / grid**2, bits)

    def sum_half_width(self, terms: Sequence[NoiseTerm], *, confidence: Decimal) -> Fraction:
        """Return the error of a sum of such noises."""
        return normal_sum_half_width(terms, confidence=confidence)
