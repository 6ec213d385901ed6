"""The errors that draws keep with a confidence, alone and together, by the exact law of the noise.

Every function rounds up, whatever the data are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.questions.draw import Draw
from accountant.questions.error_at_confidence import choice_error
from accountant.questions.laws import LAWS, OneAnswerLaw
from accountant.questions.sensitivity import SelectionStatistic
from accountant.questions.sums_of_noise import NoiseTerm

CONFIDENCE: Final = "0.95"


def half_width(draw: Draw, confidence: Decimal) -> Fraction:
    """Return the error that each noisy number of a draw keeps with a confidence, in its units."""
    return LAWS[draw.law].half_width(draw.spread, confidence=confidence, grid=draw.grid)


@dataclass(frozen=True, slots=True)
class SumOfNoises:
    """Sums of the noises of independent draws, with coefficients chosen before any of them.

    Attributes:
        law: of all the draws.
        noises: the spread and the grid of each.
    """

    law: str
    noises: tuple[tuple[Fraction, Fraction], ...]

    def half_width(self, coefficients: Sequence[Fraction], confidence: Decimal) -> Fraction:
        """Return the error that a sum keeps with a confidence.

        Args:
            coefficients: of the first noises; the others have 0.
        """
        law = LAWS[self.law]
        assert isinstance(law, OneAnswerLaw), "a session has one statistic"
        terms = [
            NoiseTerm(coefficient=each, spread=spread, grid=grid)
            for each, (spread, grid) in zip(coefficients, self.noises, strict=False)
        ]
        return law.sum_half_width(terms, confidence=confidence)


def noises_of(draws: Sequence[Draw], known_count: int | None = None) -> SumOfNoises:
    """Return the noises of draws of one law.

    Args:
        known_count: a count that the schema states stands first, without noise.
    """
    (law,) = {each.law for each in draws}
    known = () if known_count is None else ((Fraction(0), Fraction(0)),)
    return SumOfNoises(law, (*known, *[(each.spread, each.grid) for each in draws]))


def rank_error(draw: Draw, confidence: Decimal) -> Fraction:
    """Return how many rows each choice of a draw is at most from the best, with a confidence.

    It follows from schema, question and noise: scores would tell of the data.
    """
    statistic = draw.statistic
    assert isinstance(statistic, SelectionStatistic), "numbers have intervals"
    return choice_error(
        scale=draw.spread,
        candidates=statistic.candidates,
        confidence=confidence,
        grid=statistic.grid,
    )
