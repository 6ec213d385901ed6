"""Randomized response RR_{epsilon, delta}, the source of every (epsilon, delta)-DP mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from research.games.pairs import Pair, draw


class ResponseOutcome(IntEnum):
    """An answer of RR_{epsilon, delta}.

    ZERO proves the input 0, and ONE the input 1. TOP is evidence for 0 and BOTTOM for 1, of loss
    epsilon.
    """

    ZERO = 0
    TOP = 1
    BOTTOM = 2
    ONE = 3


@dataclass(frozen=True, slots=True)
class RandomizedResponseLaw:
    """RR_{epsilon, delta}: {0, 1} -> {0, top, bottom, 1}. Source: Rogers 2016 Def 2.6.

    Attributes:
        epsilon: in nats, >= 0 and finite.
        delta: in [0, 1].
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon must be finite and >= 0, got {self.epsilon}")
        if not 0 <= self.delta <= 1:
            raise ValueError(f"delta must be in [0, 1], got {self.delta}")

    def law(self, b: int) -> tuple[float, float, float, float]:
        """Return the probability of each `Outcome` on input b."""
        kept = 1 - self.delta
        likely = kept / (1 + math.exp(-self.epsilon))
        # e^-epsilon / (1 + e^-epsilon): no cancellation, and no overflow for a large epsilon.
        unlikely = kept * math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))
        if b:
            return (0.0, unlikely, likely, self.delta)
        return (self.delta, likely, unlikely, 0.0)

    def loss(self, outcome: int) -> float:
        """Return ln(P[RR(0) = outcome] / P[RR(1) = outcome]), in nats."""
        return (math.inf, self.epsilon, -self.epsilon, -math.inf)[outcome]

    def sample(self, b: int, generator: np.random.Generator) -> ResponseOutcome:
        """Return an answer to input b."""
        return ResponseOutcome(draw(self.law(b), generator))

    def pair(self) -> Pair:
        """Return the laws on both inputs, without outcomes of probability 0."""
        rows = zip(self.law(0), self.law(1), map(self.loss, ResponseOutcome), strict=True)
        p, q, losses = zip(*[row for row in rows if row[0] or row[1]], strict=True)
        return Pair(p, q, losses)
