"""Discrete Gaussian noise: the first law of a rho."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from accountant.amounts import UNIT, format_units, units_down, units_up
from accountant.claims import Zcdp
from accountant.noise import RandomBits, discrete_gaussian
from accountant.questions.draw import Draw
from accountant.questions.error_at_confidence import (
    discrete_gaussian_half_width,
    least_gaussian_rho,
)
from accountant.questions.laws.base import OneAnswerLaw
from accountant.questions.noise import Noise, units_of
from accountant.questions.sensitivity import VectorStatistic
from accountant.questions.sums_of_noise import NoiseTerm, normal_sum_half_width


class DiscreteGaussianLaw(OneAnswerLaw):
    """Noise k with probability proportional to e^(-k^2/(2 variance)), on the statistic's grid."""

    name = "discrete_gaussian"
    forms = ("rho", "sigma", "error")
    claim_type = Zcdp
    default_of = ("rho",)

    def derive(self, statistic: VectorStatistic, noise: Noise, share: Fraction) -> Draw:
        """Return the noise with a `zcdp` claim."""
        # rho = l2^2/(2 variance) (Canonne, Kamath and Steinke 2020). No Gaussian of that rho
        # dominates it, so the claim is `zcdp`, never `gaussian` or `gdp`.
        if noise.form == "sigma":
            variance = Fraction(noise.amount) ** 2
            units = units_up(statistic.l2_squared / (2 * variance))
        else:
            if noise.form == "error":
                found = least_gaussian_rho(
                    error=Fraction(noise.amount),
                    confidence=Decimal(str(noise.confidence)),
                    grid=statistic.grid,
                    l2_squared=statistic.l2_squared,
                )
                units = units_of(found, noise)
            else:
                units = units_down(Fraction(noise.amount) * share)
            variance = statistic.l2_squared * UNIT / (2 * units)
        claim = Zcdp(rho=format_units(units))
        return Draw(statistic=statistic, law=self.name, variance=variance, claim=claim)

    def half_width(self, spread: Fraction, *, confidence: Decimal, grid: Fraction) -> Fraction:
        """Return the error by the exact tail, above a large variance by a bound."""
        return discrete_gaussian_half_width(variance=spread, confidence=confidence, grid=grid)

    def add(self, steps: int, spread: Fraction, *, grid: Fraction, bits: RandomBits) -> int:
        """Return a number with its noise."""
        return steps + discrete_gaussian(spread / grid**2, bits)

    def sum_half_width(self, terms: Sequence[NoiseTerm], *, confidence: Decimal) -> Fraction:
        """Return the error of a sum of such noises."""
        return normal_sum_half_width(terms, confidence=confidence)
