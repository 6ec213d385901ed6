"""The exponential mechanism over a finite list of scores."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import index

from accountant.noise.bernoulli import bernoulli_exp
from accountant.noise.bits import RandomBits, uniform_below
from accountant.noise.exact import exact_fraction


def choose(scores: Sequence[int], scale: Fraction | int, bits: RandomBits) -> int:
    """Return the place of a score with probability proportional to exp(score / scale).

    That is the place of the largest score after independent Gumbel noise of this scale. Its
    bounded range is the range distance of the scores divided by the scale. The expected number
    of tries is at most the number of scores.

    Raises: ValueError: there is no score, or the scale is not above 0.
    """
    exact_scores = [index(score) for score in scores]
    if not exact_scores:
        raise ValueError("scores must have at least one")
    scale = exact_fraction(scale)
    if scale <= 0:
        raise ValueError(f"the scale must be above 0, got {scale}")
    best = max(exact_scores)
    while True:
        place = uniform_below(len(exact_scores), bits)
        below_best = (best - exact_scores[place]) * scale.denominator
        if bernoulli_exp(below_best, scale.numerator, bits):
            return place
