"""The simulation lemma: an (epsilon, delta)-DP mechanism as post-processing of RR_{epsilon, delta}.

Kairouz, Oh and Viswanath 2015; Rogers 2016 Thm 2.7; Smith, lecture 10, Lemma 3.1, whose general
case is misprinted (it needs the smaller of the two measures, not the larger).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from research.games.randomized_response import ResponseOutcome

Law = list[Fraction]


def simulator(
    p: Sequence[Fraction], q: Sequence[Fraction], *, odds: Fraction, delta: Fraction
) -> tuple[Law, Law, Law, Law]:
    """Return the law of T(z) for each outcome z of RR: T(RR(0)) has law p, T(RR(1)) law q.

    All values are fractions, so that the laws agree exactly.

    Args:
        p, q: a mechanism's laws on two neighbours, over the same outcomes.
        odds: e^epsilon, >= 1.
        delta: in [0, 1].
    Raises: ValueError: p and q are not (epsilon, delta)-indistinguishable.
    """
    if sum(p) != 1 or sum(q) != 1 or min(*p, *q) < 0 or len(p) != len(q):
        raise ValueError("p and q must be probability laws over the same outcomes")
    if odds < 1 or not 0 <= delta <= 1:
        raise ValueError(f"odds must be >= 1 and delta in [0, 1], got {odds}, {delta}")
    near_p, near_q = _within_odds(p, q, odds=odds)
    kept = 1 - delta
    mass = sum(near_p, start=Fraction(0))
    if mass < kept:
        raise ValueError(f"not indistinguishable: H_epsilon = {1 - mass} > delta = {delta}")
    # Scaling both measures keeps their ratio within the odds.
    scale = kept / mass if mass else Fraction(0)
    near_p, near_q = [scale * x for x in near_p], [scale * y for y in near_q]
    zero, one = _rest(p, near_p, delta), _rest(q, near_q, delta)
    if not kept:
        return zero, zero, one, one
    if odds == 1:
        both = [x / kept for x in near_p]
        return zero, both, both, one
    # `top` and `bottom` solve a (odds top + bottom) = near_p and a (top + odds bottom) = near_q,
    # a = (1 - delta)/(1 + odds). Neither is negative, since the ratio is within the odds.
    unit = (odds - 1) * kept
    top = [(odds * x - y) / unit for x, y in zip(near_p, near_q, strict=True)]
    bottom = [(odds * y - x) / unit for x, y in zip(near_p, near_q, strict=True)]
    return zero, top, bottom, one


def _within_odds(
    p: Sequence[Fraction], q: Sequence[Fraction], *, odds: Fraction
) -> tuple[Law, Law]:
    """Return the largest measures below p and q, of equal mass, within `odds` of each other."""
    near_p = [min(x, odds * y) for x, y in zip(p, q, strict=True)]
    near_q = [min(y, odds * x) for x, y in zip(p, q, strict=True)]
    if sum(near_p) < sum(near_q):
        near_q = _lowered(near_q, near_p)
    else:
        near_p = _lowered(near_p, near_q)
    return near_p, near_q


def _lowered(large: Law, small: Law) -> Law:
    """Return `large` moved towards the minimum of both, until its mass is that of `small`.

    The minimum is within the odds of `small`, so every point on the way to it is, too.
    """
    minimum = [min(x, y) for x, y in zip(large, small, strict=True)]
    excess = sum(large) - sum(small)
    if not excess:
        return large
    part = Fraction(excess, sum(large) - sum(minimum))
    return [x - part * (x - y) for x, y in zip(large, minimum, strict=True)]


def _rest(whole: Sequence[Fraction], near: Law, delta: Fraction) -> Law:
    """Return the law of T where RR reveals its input; unused, hence any law, without delta."""
    if not delta:
        return list(whole)
    return [(x - y) / delta for x, y in zip(whole, near, strict=True)]


@dataclass(frozen=True, slots=True)
class LaplaceSimulator:
    """T with T(RR_epsilon(0)) ~ Lap(1/epsilon) and T(RR_epsilon(1)) ~ 1 + Lap(1/epsilon).

    Source: Smith, lecture 10, exercise 3.2, solved here: T(top) has the density
    (e^epsilon p - q)/(e^epsilon - 1), which is exponential below 0, epsilon
    sinh(epsilon (1-x))/(e^epsilon - 1) in [0, 1] and 0 above; T(bottom) is its mirror image.

    Attributes:
        epsilon: in nats, > 0.
    """

    epsilon: float

    def density(self, outcome: ResponseOutcome, x: float) -> float:
        """Return the density of T(outcome) at x."""
        if outcome is ResponseOutcome.BOTTOM:
            return self.density(ResponseOutcome.TOP, 1 - x)
        if outcome is not ResponseOutcome.TOP:
            raise ValueError(f"RR_epsilon without delta never answers {outcome.name}")
        e = self.epsilon
        if x < 0:
            return e / 2 * (1 + math.exp(-e)) * math.exp(e * x)
        return e * math.sinh(e * (1 - x)) / math.expm1(e) if x < 1 else 0.0

    def sample(self, outcome: ResponseOutcome, generator: np.random.Generator) -> float:
        """Return one value of T(outcome)."""
        if outcome is ResponseOutcome.BOTTOM:
            return 1 - self.sample(ResponseOutcome.TOP, generator)
        if outcome is not ResponseOutcome.TOP:
            raise ValueError(f"RR_epsilon without delta never answers {outcome.name}")
        e = self.epsilon
        if generator.random() < (1 + math.exp(-e)) / 2:
            return -generator.exponential(1 / e)
        # Within [0, 1], P(T > x) is (cosh(e(1-x)) - 1)/(cosh e - 1).
        return 1 - math.acosh(1 + generator.random() * (math.cosh(e) - 1)) / e
