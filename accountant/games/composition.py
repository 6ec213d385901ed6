"""The games that define privacy when the parameters are chosen along the way.

AdaptParamComp and PrivacyFilterComp (Rogers 2016 Alg 2 and 3): an adversary asks for
mechanisms, each chosen after seeing what the ones before it answered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from accountant.claims import Claim
from accountant.games.ledgers import FilterLedger


class Mechanism(Protocol):
    """A mechanism on the two neighbours that the adversary chose."""

    def sample(self, b: int, generator: np.random.Generator) -> int:
        """Return its answer on neighbour b."""
        ...

    def loss(self, outcome: int) -> float:
        """Return ln(P[answer on neighbour 0] / P[answer on neighbour 1]), in nats."""
        ...


@dataclass(frozen=True, slots=True)
class Query:
    """What the adversary asks for: a mechanism, and the claim that it obeys."""

    claim: Claim
    mechanism: Mechanism


@dataclass(frozen=True, slots=True)
class Round:
    """One query with its answer, None where a filter refused it."""

    query: Query
    outcome: int | None

    @property
    def loss(self) -> float:
        """The loss of this round, in nats: a refusal tells nothing."""
        return 0.0 if self.outcome is None else self.query.mechanism.loss(self.outcome)


class Adversary(Protocol):
    """Chooses each query after all that it has seen; its coins come from `generator`."""

    def choose(self, view: Sequence[Round], generator: np.random.Generator) -> Query | None:
        """Return the next query, None to stop."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What the adversary ends up with."""

    rounds: tuple[Round, ...]

    @property
    def loss(self) -> float:
        """The privacy loss of the whole view, in nats (Rogers 2016, eq 1)."""
        losses = [r.loss for r in self.rounds]
        # inf and -inf cannot meet in one view: its probability would be 0 on both neighbours.
        return sum(losses) if any(map(math.isinf, losses)) else math.fsum(losses)


def adapt_param_comp(
    adversary: Adversary, *, rounds: int, b: int, generator: np.random.Generator
) -> View:
    """Play AdaptParamComp: whatever is asked for runs. Source: Rogers 2016 Alg 2.

    Args:
        rounds: the most queries that are answered.
        b: which neighbour is the data.
    """
    return _play(adversary, None, rounds=rounds, b=b, halt=False, generator=generator)


def privacy_filter_comp(
    adversary: Adversary,
    ledger: FilterLedger,
    *,
    rounds: int,
    b: int,
    halt: bool,
    generator: np.random.Generator,
) -> View:
    """Play PrivacyFilterComp: only what the filter admits runs. Source: Rogers 2016 Alg 3.

    Args:
        ledger: the filter, as a dataset's policy sets it up.
        halt: the first refusal ends the game, as printed; else the adversary is told of it and
            may ask for something smaller, as ledgers do (docs/theory.md section 3).
    """
    return _play(adversary, ledger, rounds=rounds, b=b, halt=halt, generator=generator)


def _play(
    adversary: Adversary,
    ledger: FilterLedger | None,
    *,
    rounds: int,
    b: int,
    halt: bool,
    generator: np.random.Generator,
) -> View:
    view: list[Round] = []
    spent = ledger.start if ledger else ()
    for _ in range(rounds):
        query = adversary.choose(view, generator)
        if query is None:
            break
        if ledger:
            after = ledger.charge(spent, query.claim)
            if after is None:
                view.append(Round(query, None))
                if halt:
                    break
                continue
            spent = after
        view.append(Round(query, query.mechanism.sample(b, generator)))
    return View(tuple(view))
