"""The games that define privacy for parameters chosen adaptively.

AdaptParamComp and PrivacyFilterComp (Rogers 2016 Alg 2 and 3): an adversary requests
mechanisms and chooses each one after the answers of those before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from accountant.claims import Claim
from research.games.ledgers import FilterLedger


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
    """A request of the adversary: a mechanism, and the claim that it obeys."""

    claim: Claim
    mechanism: Mechanism


@dataclass(frozen=True, slots=True)
class Round:
    """One query with its answer, None where a filter refused it."""

    query: Query
    outcome: int | None

    @property
    def loss(self) -> float:
        """The loss of this round, in nats; a refusal has none."""
        return 0.0 if self.outcome is None else self.query.mechanism.loss(self.outcome)


class Adversary(Protocol):
    """Chooses each query from all earlier rounds; its randomness comes from `generator`."""

    def choose(self, view: Sequence[Round], generator: np.random.Generator) -> Query | None:
        """Return the next query, None to stop."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """All that the adversary has seen at the end of a game."""

    rounds: tuple[Round, ...]

    @property
    def loss(self) -> float:
        """The privacy loss of the whole view, in nats (Rogers 2016, eq 1)."""
        losses = [r.loss for r in self.rounds]
        # A view never holds both inf and -inf: its probability would be 0 on both neighbours.
        return sum(losses) if any(map(math.isinf, losses)) else math.fsum(losses)


def adapt_param_comp(
    adversary: Adversary, *, rounds: int, b: int, generator: np.random.Generator
) -> View:
    """Play AdaptParamComp: every query runs. Source: Rogers 2016 Alg 2.

    Args:
        rounds: the most queries.
        b: the neighbour that is the data, 0 or 1.
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
    """Play PrivacyFilterComp: only queries that the filter admits run. Source: Rogers 2016 Alg 3.

    Args:
        ledger: the filter of a dataset's policy.
        halt: the first refusal ends the game, as printed. Otherwise the adversary sees the
            refusal and goes on with other queries, as with a ledger (docs/theory.md section 3).
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
