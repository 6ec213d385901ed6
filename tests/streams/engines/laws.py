"""Laws of outputs as tables, and their divergences, by no code of the product or of an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Final

from accountant.claims import Approximate, ApproximateZcdp, Claim, Pure, Zcdp

Law = Mapping[Hashable, float]
WINDOW: Final = range(-70, 71)
"""Whole numbers beyond it have next to no probability."""
_ORDERS: Final = (1.01, 1.5, 2.0, 4.0, 16.0)
_NOTHING: Final = 1e-200
_ROUNDING: Final = 1 + 1e-9
"""The engines compute in floating point, and so do these laws."""


def of_weights(weights: Mapping[Hashable, float]) -> Law:
    """Return the law with these weights."""
    total = math.fsum(weights.values())
    return {each: weight / total for each, weight in weights.items() if weight > 0}


def discrete_laplace(center: int, scale: float) -> Law:
    at_center = -math.expm1(-1 / scale) / (1 + math.exp(-1 / scale))
    return {k: at_center * math.exp(-abs(k - center) / scale) for k in WINDOW}


def discrete_gaussian(center: int, sigma: float) -> Law:
    return of_weights({k: math.exp(-((k - center) ** 2) / (2 * sigma**2)) for k in WINDOW})


def softmax(scores: Sequence[float], scale: float) -> Law:
    """Return which score is the largest with Gumbel noise of a scale."""
    return of_weights({i: math.exp((x - max(scores)) / scale) for i, x in enumerate(scores)})


def peeled(scores: Sequence[float], scale: float) -> Law:
    """Return which two scores are the largest with Gumbel noise, the largest first."""
    found: dict[Hashable, float] = {}
    for i, probability in softmax(scores, scale).items():
        assert isinstance(i, int)
        others = [j for j in range(len(scores)) if j != i]
        for place, then in softmax([scores[j] for j in others], scale).items():
            assert isinstance(place, int)
            found[i, others[place]] = probability * then
    return found


def permute_and_flip(scores: Sequence[float], scale: float) -> Law:
    """Return which score comes first whose coin falls to 1, in an order of chance."""
    found = dict.fromkeys(range(len(scores)), 0.0)

    def go_on(left: tuple[int, ...], probability: float) -> None:
        for i in left:
            falls = math.exp((scores[i] - max(scores)) / scale)
            found[i] += probability / len(left) * falls
            if falls < 1:
                others = tuple(j for j in left if j != i)
                go_on(others, probability / len(left) * (1 - falls))

    go_on(tuple(found), 1.0)
    return of_weights(dict(found))


def mapped(law: Law, function: Callable[[Any], Hashable]) -> Law:
    """Return the law of a function of the output."""
    found: dict[Hashable, float] = {}
    for each, probability in law.items():
        image = function(each)
        found[image] = found.get(image, 0.0) + probability
    return found


def joint(*laws: Law) -> Law:
    """Return the law of independent outputs; each may be mapped to a small law before."""
    return {
        tuple(each for each, _ in outcome): math.prod(p for _, p in outcome)
        for outcome in product(*(law.items() for law in laws))
    }


def hockey_stick(one: Law, other: Law, epsilon: float) -> float:
    """Return the delta of `one` against `other` at an epsilon."""
    scale = math.exp(epsilon)
    return math.fsum(max(0.0, p - scale * other.get(each, 0.0)) for each, p in one.items())


def max_divergence(one: Law, other: Law) -> float:
    if one.keys() - other.keys():
        return math.inf
    return max(math.log(p / other[each]) for each, p in one.items())


def renyi(one: Law, other: Law, order: float) -> float:
    if any(p > _NOTHING and each not in other for each, p in one.items()):
        return math.inf
    logs = ((math.log(p), math.log(other[each])) for each, p in one.items() if each in other)
    return math.log(math.fsum(math.exp(order * p + (1 - order) * q) for p, q in logs)) / (order - 1)


def conditioned(law: Law, outputs: frozenset[Hashable]) -> Law:
    return of_weights({each: p for each, p in law.items() if each in outputs})


def covers(claim: Claim, one: Law, other: Law) -> bool:
    """Return whether a claim covers what two laws lose to each other."""
    return all(_covers(claim, *pair) for pair in ((one, other), (other, one)))


def _covers(claim: Claim, one: Law, other: Law) -> bool:
    match claim:
        case Pure():
            return max_divergence(one, other) <= float(claim.epsilon) * _ROUNDING
        case Approximate():
            # The epsilon is rounded up to a float, which would hide a delta of 0 exceeded by 1e-17.
            found = hockey_stick(one, other, float(claim.epsilon))
            return found <= float(claim.delta) * _ROUNDING + 1e-15
        case Zcdp():
            rho = float(claim.rho) * _ROUNDING
            return all(renyi(one, other, order) <= order * rho for order in _ORDERS)
        case ApproximateZcdp():
            both = frozenset(one.keys() & other.keys())
            lost = max(1 - math.fsum(law[each] for each in both) for law in (one, other))
            if lost > float(claim.delta) * _ROUNDING + 1e-15:
                return False
            without = (conditioned(law, both) for law in (one, other))
            return _covers(Zcdp(claim.rho), *without)
        case _:
            raise AssertionError(claim)


def part_used(claim: Claim, one: Law, other: Law) -> float:
    """Return how much of a pure claim's epsilon two laws lose; 1 for any other claim."""
    if not isinstance(claim, Pure):
        return 1.0
    lost = max(max_divergence(one, other), max_divergence(other, one))
    return lost / float(Fraction(claim.epsilon))
