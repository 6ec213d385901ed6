"""A draw: one exact statistic, the noise that it gets, and the claim of that noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from accountant.claims import Claim
from accountant.questions.noise import NoiseLaw
from accountant.questions.sensitivity import SelectionStatistic, VectorStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One statistic with the noise that it gets, and the claim of that noise.

    Attributes:
        law: `gumbel` chooses a candidate by the exponential mechanism; the others are in the
            table of laws.
        scale: of discrete Laplace and Gumbel noise, None for others; a session's finest.
        variance: of the Gaussian before it is rounded, or the parameter of the discrete one; a
            session's finest.
        first: of a session, its first and largest variance or scale; `levels_of` has them all.
        unit: of a session's claim, whose numbers are in units of it: 1, or the least power of ten
            in which none of them reaches 1e9. All other fields are in units of the answer.
        claim: of one draw; a selection makes `statistic.times`.
    """

    statistic: VectorStatistic | SelectionStatistic
    law: NoiseLaw | Literal["gumbel"]
    claim: Claim
    scale: Fraction | None = None
    variance: Fraction | None = None
    first: Fraction | None = None
    unit: int = 1

    @property
    def spread(self) -> Fraction:
        """Its scale or its variance, whichever its law has."""
        spread = self.variance if self.scale is None else self.scale
        assert spread is not None, "each law has its scale or its variance"
        return spread

    @property
    def grid(self) -> Fraction:
        """On whose multiples its noisy numbers are."""
        assert isinstance(self.statistic, VectorStatistic), "a choice has no noise on a grid"
        return self.statistic.grid

    def with_spread(self, spread: Fraction) -> Draw:
        """Return the draw with another scale or variance."""
        if self.scale is None:
            return replace(self, variance=spread)
        return replace(self, scale=spread)
