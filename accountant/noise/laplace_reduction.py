"""Laplace noise reduction on a grid: one answer, shown with less and less noise."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from operator import index

from accountant.noise.bernoulli import bernoulli_exp, bernoulli_exp_quotient
from accountant.noise.bits import RandomBits
from accountant.noise.discrete_laplace import discrete_laplace
from accountant.noise.exact import exact_fraction


class LaplaceReduction:
    """Answers at some scales; all of them together reveal no more than the finest one shown.

    The noise of a scale is that of the next smaller one, with more noise or the same. So a
    coarser answer is a random function, without data, of a finer one. Each answer has discrete
    Laplace noise of exactly its scale. Everything is drawn at the start: a scale that is drawn
    twice gives the same answer. Source: docs/theory.md section 5.

    Args:
        steps: the exact value, as a number of steps of its grid.
        scales: that may be drawn, in units of the answer.
        step: of the grid, in units of the answer. Every data set's value must be a multiple.

    Raises: ValueError: there is no scale, or one is not above 0.
    """

    def __init__(
        self,
        steps: int,
        scales: Iterable[str | Fraction | int],
        bits: RandomBits,
        *,
        step: Fraction | int = 1,
    ) -> None:
        value, step = index(steps), exact_fraction(step)
        rising = sorted({exact_fraction(scale) for scale in scales})
        if not rising:
            raise ValueError("scales must have at least one")
        noise = discrete_laplace(rising[0] / step, bits)
        self._answers = {rising[0]: step * (value + noise)}
        for smaller, larger in pairwise(rising):
            if not stays(smaller / step, larger / step, bits):
                noise += discrete_laplace(larger / step, bits)
            self._answers[larger] = step * (value + noise)

    def draw(self, scale: str | Fraction | int) -> Fraction:
        """Return the answer at one of the scales.

        Raises: ValueError: it is none of them.
        """
        answer = self._answers.get(exact_fraction(scale))
        if answer is None:
            raise ValueError(f"the scale must be one of those at the start, got {scale}")
        return answer


def stays(smaller: Fraction, larger: Fraction, bits: RandomBits) -> bool:
    """Tell whether the larger scale has the noise of the smaller one, scales in steps.

    The probability is (a/A) ((1-A)/(1-a))^2, with a = exp(-1/smaller) and A = exp(-1/larger).
    """
    x, y = 1 / larger, 1 / smaller
    difference = y - x
    return (
        bernoulli_exp(difference.numerator, difference.denominator, bits)
        and bernoulli_exp_quotient(x, y, bits)
        and bernoulli_exp_quotient(x, y, bits)
    )
