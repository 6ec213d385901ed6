"""Laplace noise reduction: a session of an epsilon or an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

from msgspec import UNSET

from accountant.amounts import UNIT, budget_down, cost_up, format_units, units_up
from accountant.claims import Claim, ExPost
from accountant.noise import LaplaceReduction, RandomBits
from accountant.questions.accuracy_first import Level, count_halvings, in_range, levels_down
from accountant.questions.draw import Draw
from accountant.questions.error_at_confidence import laplace_half_width, least_laplace_epsilon
from accountant.questions.laws.base import SessionLaw
from accountant.questions.noise import Noise
from accountant.questions.sensitivity import VectorStatistic


class LaplaceReductionLaw(SessionLaw):
    """Answers with discrete Laplace noise at falling scales."""

    name = "laplace_reduction"
    forms = ("epsilon", "error")

    def session(self, statistic: VectorStatistic, noise: Noise) -> Draw | None:
        """Return a session of Laplace noise reduction whose finest answer has the noise wanted.

        The scale is rounded up where it is to cost at most epsilon, down where it is to keep an
        error. The claim's sensitivity and epsilon are rounded up.

        Returns: None if no noise keeps the error, or none has a claim.
        """
        epsilon = _epsilon(statistic, noise)
        if epsilon is None:
            return None
        wanted = statistic.l1 / epsilon
        first = None if noise.first is UNSET else Fraction(noise.first)
        halvings = count_halvings(wanted, first, noise, statistic.cells)
        rounded = cost_up if noise.form == "epsilon" else budget_down

        def numbers(unit: int) -> tuple[int, int]:
            sensitivity = units_up(statistic.l1 / unit)
            if noise.form == "epsilon":
                return sensitivity, rounded(Fraction(sensitivity, UNIT) / epsilon)
            return sensitivity, rounded(wanted / unit)

        unit, sensitivity, finest = in_range(numbers, halvings)
        if not finest:
            return None
        claim = ExPost(
            epsilon=format_units(units_up(Fraction(sensitivity, finest))),
            sensitivity=format_units(sensitivity),
            first=format_units(finest << halvings),
            least=format_units(finest),
        )
        scale = Fraction(finest, UNIT) * unit
        return Draw(
            statistic=statistic,
            law=self.name,
            claim=claim,
            scale=scale,
            first=scale * 2**halvings,
            unit=unit,
        )

    def levels(self, claim: Claim, unit: int) -> tuple[Level, ...]:
        """Return the scales and what each costs in epsilon."""
        assert isinstance(claim, ExPost), "a session of this law has no other claim"
        sensitivity = Fraction(str(claim.sensitivity))
        return levels_down(
            Fraction(str(claim.first)),
            Fraction(str(claim.least)),
            unit=unit,
            cost=lambda scale: sensitivity / scale,
        )

    def samplers(
        self, steps: Sequence[int], levels: Sequence[Level], *, grid: Fraction, bits: RandomBits
    ) -> Sequence[Callable[[Fraction], Fraction]]:
        """Return what shows each number: all noise is drawn at the start."""
        scales = [level.noise for level in levels]
        return [LaplaceReduction(each, scales, bits, step=grid).draw for each in steps]

    def half_width(self, spread: Fraction, *, confidence: Decimal, grid: Fraction) -> Fraction:
        """Return the error by the exact tail."""
        return laplace_half_width(scale=spread, confidence=confidence, grid=grid)

    def fixed_cost(
        self, statistic: VectorStatistic, *, error: Fraction, confidence: Decimal
    ) -> Fraction | None:
        """Return the epsilon of discrete Laplace noise."""
        epsilon = least_laplace_epsilon(
            error=error, confidence=confidence, grid=statistic.grid, l1=statistic.l1
        )
        return None if epsilon is None else Fraction(epsilon)


def _epsilon(statistic: VectorStatistic, noise: Noise) -> Fraction | None:
    if noise.form == "epsilon":
        return Fraction(noise.amount)
    epsilon = least_laplace_epsilon(
        error=Fraction(noise.amount),
        confidence=Decimal(str(noise.confidence)),
        grid=statistic.grid,
        l1=statistic.l1,
    )
    return None if epsilon is None else Fraction(epsilon)
