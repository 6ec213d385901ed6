"""Mechanisms with finitely many outcomes, on two fixed neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """The laws of a mechanism's outcome on neighbour 0 and on neighbour 1.

    Attributes:
        p, q: probability of each outcome on neighbour 0 and on neighbour 1.
        losses: ln(p/q) of each outcome, in nats; inf where q = 0, -inf where p = 0.
    """

    p: tuple[float, ...]
    q: tuple[float, ...]
    losses: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.p) == len(self.q) == len(self.losses):
            raise ValueError("p, q and losses must be equally long")
        for law in (self.p, self.q):
            if min(law) < 0 or not math.isclose(math.fsum(law), 1, rel_tol=1e-12):
                raise ValueError(f"must be a probability law, got {law}")
        for p, q, loss in zip(self.p, self.q, self.losses, strict=True):
            # The check compares probabilities: for a loss of about 1e-8, ln(p/q) has lost digits.
            expected = p if math.isinf(loss) else q * math.exp(loss)
            impossible = (loss == math.inf and q) or (loss == -math.inf and p)
            if impossible or abs(p - expected) > 1e-12:
                raise ValueError(f"loss {loss} does not belong to p={p}, q={q}")

    @classmethod
    def of(cls, p: Sequence[float], q: Sequence[float]) -> Self:
        """Return the pair of two laws over the same outcomes.

        Raises: ValueError: p or q is not a law, or an outcome has probability 0 in both.
        """
        losses = []
        for x, y in zip(p, q, strict=True):
            if not x and not y:
                raise ValueError("an outcome has probability 0 on both neighbours")
            losses.append(math.inf if not y else -math.inf if not x else math.log(x / y))
        return cls(tuple(p), tuple(q), tuple(losses))

    def swapped(self) -> Pair:
        """Return the same mechanism with the neighbours in the other order."""
        return Pair(self.q, self.p, tuple(-loss for loss in self.losses))

    def hockey_stick(self, x: float) -> float:
        """Return H_x(P||Q) = sum (p - e^x q)_+, for any real x in nats."""
        grown = math.exp(x)
        return math.fsum(max(p - grown * q, 0) for p, q in zip(self.p, self.q, strict=True))

    def chance_above(self, x: float) -> float:
        """Return P(L > x)."""
        return math.fsum(p for p, loss in zip(self.p, self.losses, strict=True) if loss > x)

    def log_moment(self, order: float) -> float:
        """Return ln E_P[e^{order L}], in nats; inf if an outcome proves neighbour 0."""
        terms = [
            math.log(p) + order * loss for p, loss in zip(self.p, self.losses, strict=True) if p
        ]
        maximum = max(terms)
        return (
            maximum
            if math.isinf(maximum)
            else maximum + math.log(sum(math.exp(t - maximum) for t in terms))
        )

    def loss(self, outcome: int) -> float:
        """Return the privacy loss of an outcome, in nats."""
        return self.losses[outcome]

    def sample(self, b: int, generator: np.random.Generator) -> int:
        """Return the index of an outcome on neighbour b."""
        return draw(self.q if b else self.p, generator)


def draw(law: Sequence[float], generator: np.random.Generator) -> int:
    """Return an index drawn from a law."""
    left = generator.random()
    for i, chance in enumerate(law):
        left -= chance
        if left < 0:
            return i
    # Rounding may leave a rest, which belongs to the last outcome of positive probability.
    return max(i for i, chance in enumerate(law) if chance)


def randomized_response(epsilon: float) -> Pair:
    """Return RR_epsilon, of loss +-epsilon; every epsilon-DP mechanism post-processes it."""
    high = 1 / (1 + math.exp(-epsilon))
    return Pair((high, 1 - high), (1 - high, high), (epsilon, -epsilon))


def name_and_shame(delta: float) -> Pair:
    """Return the (0, delta)-DP pair that reveals the neighbour with probability delta."""
    return Pair((delta, 0.0, 1 - delta), (0.0, delta, 1 - delta), (math.inf, -math.inf, 0.0))


def symmetric_atom(loss: float, mass: float) -> Pair:
    """Return a pair of loss `loss` with probability `mass`, its mirror image, and otherwise 0."""
    mirrored = mass * math.exp(-loss)
    rest = 1 - mass - mirrored
    return Pair((mass, mirrored, rest), (mirrored, mass, rest), (loss, -loss, 0.0))


def coarsened_gaussian(mu: float, cuts: Sequence[float]) -> Pair:
    """Return N(mu, 1) against N(0, 1), showing only the interval between `cuts`.

    It is post-processing of a Gaussian with sensitivity/sigma = mu, so it obeys that one's claims.
    """
    edges = np.array([-math.inf, *cuts, math.inf])
    # `_cells` computes an upper tail as a lower one, which keeps its digits.
    p, q = (_cells(edges - shift) for shift in (mu, 0.0))
    return Pair.of(p, q)


def _cells(edges: FloatArray) -> list[float]:
    low, high = edges[:-1], edges[1:]
    mass = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return [float(x) for x in mass / mass.sum()]
