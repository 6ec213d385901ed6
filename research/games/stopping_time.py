"""The adversary that repeats randomized response until the loss crosses a boundary.

The loss is a walk of steps +-epsilon, so the probability that it ever is above the boundary has
an exact computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from accountant.claims import Pure
from research.games.composition import Query, Round
from research.games.pairs import FloatArray, randomized_response

# A loss is a multiple of epsilon. A loss this close to the boundary has reached it, not crossed it.
_TIE = 1e-9


@dataclass(slots=True)
class StoppingTimeAdversary:
    """Asks for RR_epsilon until the loss after n rounds is above bound(n), then stops.

    Source: Rogers 2016 Alg 5.

    Attributes:
        epsilon: of each round, a decimal in nats.
        bound: from the number of rounds to the boundary in nats.
    """

    epsilon: str
    bound: Callable[[int], float]
    _query: Query = field(init=False)

    def __post_init__(self) -> None:
        self._query = Query(Pure(self.epsilon), randomized_response(float(self.epsilon)))

    def choose(self, view: Sequence[Round], generator: np.random.Generator) -> Query | None:
        del generator  # this adversary is deterministic
        epsilon, rounds = float(self.epsilon), len(view)
        if not rounds:
            return self._query
        steps = round(sum(r.loss for r in view) / epsilon)
        return None if steps > self.bound(rounds) / epsilon + _TIE else self._query


def rogers_bound(
    *, epsilon: Decimal, delta: float, rounds: int, constant: float
) -> Callable[[int], float]:
    """Return the boundary of Rogers 2016 Alg 5, with its e^j read as e^epsilon (errata).

    t epsilon (e^epsilon - 1)/(e^epsilon + 1) + constant epsilon sqrt(t ln(ln(rounds)/delta)).
    """
    e = float(epsilon)
    drift, spread = e * math.tanh(e / 2), e * math.sqrt(math.log(math.log(rounds) / delta))
    return lambda t: t * drift + constant * spread * math.sqrt(t)


def crossing_probability(epsilon: float, bounds: FloatArray) -> float:
    """Return P(exists n: loss after n rounds > bounds[n - 1]), exactly up to float error.

    Args:
        epsilon: of each RR_epsilon, in nats, > 0.
        bounds: float64[rounds], in nats; inf where no loss counts as crossing.
    """
    rounds = len(bounds)
    up = 1 / (1 + math.exp(-epsilon))
    # The loss (2k - n) epsilon is above the bound from k = first on.
    n = np.arange(1, rounds + 1)
    maximum = np.minimum(bounds / epsilon, 2.0 * rounds)
    first = np.maximum(np.floor((maximum + n) / 2 + _TIE).astype(np.int64) + 1, 0)
    walk = np.zeros(rounds + 2)  # walk[k]: P(k steps up so far and no crossing)
    walk[0] = 1.0
    crossed = 0.0
    for i in range(1, rounds + 1):
        shifted = up * walk[:i]
        walk[: i + 1] *= 1 - up
        walk[1 : i + 1] += shifted
        beyond = int(first[i - 1])
        if beyond <= i:
            crossed += float(walk[beyond : i + 1].sum())
            walk[beyond : i + 1] = 0.0
    return crossed


def crossing_count(
    epsilon: float, bounds: FloatArray, *, runs: int, generator: np.random.Generator
) -> int:
    """Return the number of `runs` independent runs in which the loss ever exceeds its bound.

    A walk that is m steps below every later bound cannot cross within m rounds, so one draw
    covers these rounds; the law is the same as round by round.
    """
    rounds = len(bounds)
    up = 1 / (1 + math.exp(-epsilon))
    steps = np.floor(np.minimum(bounds / epsilon, 2.0 * rounds) + _TIE).astype(np.int64)
    # lowest[n]: the smallest bound of rounds n + 1, n + 2, ..., in steps.
    lowest = np.minimum.accumulate(steps[::-1])[::-1]
    place = np.zeros(runs, dtype=np.int64)
    at = np.zeros(runs, dtype=np.int64)
    crossed = 0
    while len(at):
        jump = np.clip(lowest[at] - place, 1, rounds - at)
        place += 2 * generator.binomial(jump, up) - jump
        at += jump
        above = place > steps[at - 1]
        crossed += int(above.sum())
        going = ~above & (at < rounds)
        place, at = place[going], at[going]
    return crossed
