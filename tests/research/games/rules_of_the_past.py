"""Rules that admit by what was chosen so far, and what the best adversary makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from research.games.optimal_stopping import Move, solve
from research.games.pairs import Pair
from research.games.payoffs import hockey_stick

Names = tuple[str, ...]


def composed(pairs: Sequence[Pair], x: float) -> float:
    """Return H_x of mechanisms that were all fixed in advance."""
    atoms = [(1.0, 0.0)]
    for pair in pairs:
        rows = [row for row in zip(pair.p, pair.losses, strict=True) if row[0]]
        atoms = [(a * p, loss + more) for a, loss in atoms for p, more in rows]
    return math.fsum(a * -math.expm1(min(x - loss, 0.0)) for a, loss in atoms)


def worst(menu: dict[str, Pair], admits: Callable[[Names], bool], epsilon: float) -> float:
    """Return the best adversary's H_epsilon where a rule about the past decides what may run."""

    @cache
    def moves(past: Names) -> tuple[Move[Names], ...]:
        found = []
        for name, pair in menu.items():
            after = tuple(sorted((*past, name)))
            if admits(after):
                found.append(Move(name, pair, (after,) * len(pair.p)))
        return tuple(found)

    return solve((), moves, hockey_stick(epsilon), depth=4).value
