"""The largest gain of any adaptive adversary, by exact dynamic programming.

An adversary is at a node: the state of a ledger and the loss so far. Its gain is the mean of a
payoff over the nodes at which it stops. The mean is a sum over nodes, so the best strategy
decides at each node separately: it takes the maximum of the payoff there and of each move's
mean. A hockey-stick is such a mean, E_P[(1 - e^{epsilon - L})_+], and so is the probability of
ever crossing a boundary (payoff 1 above it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from research.games.pairs import FloatArray, Pair

State = TypeVar("State", bound=Hashable)

Payoff = Callable[[State, FloatArray], FloatArray]
"""From a state and the losses of some of its nodes, in nats, to the gain of stopping there."""

_STOP = -1


@dataclass(frozen=True, slots=True)
class Move(Generic[State]):
    """A move of an adversary: a mechanism, and the state after each outcome.

    Attributes:
        name: for readers of a strategy.
        pair: the mechanism's laws; losses of outcomes with probability 0 under P are unused.
        after: the state after each outcome of the pair.
    """

    name: str
    pair: Pair
    after: tuple[State, ...]

    def outcomes(self) -> list[tuple[float, float, State]]:
        """Return (probability under P, loss, state after) of each outcome possible under P."""
        rows = zip(self.pair.p, self.pair.losses, self.after, strict=True)
        return [row for row in rows if row[0]]


SILENT = Pair((1.0,), (1.0,), (0.0,))
"""The laws of a move that changes the ledger's state and reveals nothing."""

Moves = Callable[[State], Sequence[Move[State]]]


@dataclass(frozen=True, slots=True)
class Solution(Generic[State]):
    """The solution of a game.

    Attributes:
        value: the largest gain of an adversary.
        nodes: the number of nodes (round, state, loss) of the game.
    """

    value: float
    nodes: int
    _layers: tuple[dict[State, FloatArray], ...]
    _choices: tuple[dict[State, NDArray[np.int64]], ...]
    _options: dict[State, Sequence[Move[State]]]
    _payoff: Payoff[State]
    _decimals: int

    def choose(self, depth: int, state: State, loss: float) -> Move[State] | None:
        """Return the best strategy's move after `depth` moves, None to stop."""
        if depth >= len(self._choices):
            return None
        losses = self._layers[depth][state]
        place = min(int(np.searchsorted(losses, loss - 10.0**-self._decimals)), len(losses) - 1)
        choice = int(self._choices[depth][state][place])
        return None if choice == _STOP else self._options[state][choice]

    def simulate(self, runs: int, generator: np.random.Generator) -> FloatArray:
        """Return the payoff of each of `runs` independent plays of the best strategy."""
        gained = np.zeros(runs)
        start = next(iter(self._layers[0]))
        groups = {start: (np.arange(runs), np.zeros(runs))}
        for depth, layer in enumerate(self._layers):
            next_groups: dict[State, list[tuple[NDArray[np.int64], FloatArray]]] = defaultdict(list)
            for state, (players, losses) in groups.items():
                place = np.searchsorted(layer[state], losses)
                choice = (
                    self._choices[depth][state][place]
                    if depth < len(self._choices)
                    else np.full(len(players), _STOP)
                )
                stopping = choice == _STOP
                gained[players[stopping]] = self._payoff(state, losses[stopping])
                for j in np.unique(choice[~stopping]):
                    mine = choice == j
                    rows = self._options[state][j].outcomes()
                    drawn = _draw([row[0] for row in rows], int(mine.sum()), generator)
                    for i, (_, loss, after) in enumerate(rows):
                        here = drawn == i
                        moved = np.round(losses[mine][here] + loss, self._decimals)
                        next_groups[after].append((players[mine][here], moved))
            groups = {
                state: (
                    np.concatenate([w for w, _ in parts]),
                    np.concatenate([x for _, x in parts]),
                )
                for state, parts in next_groups.items()
            }
        return gained


def _draw(law: Sequence[float], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    edges = np.cumsum(law)[:-1]
    drawn: NDArray[np.int64] = np.searchsorted(edges, generator.random(count), side="right")
    return drawn


def solve(
    start: State,
    moves: Moves[State],
    payoff: Payoff[State],
    *,
    depth: int,
    decimals: int = 12,
) -> Solution[State]:
    """Return the largest gain of an adversary in at most `depth` moves, with its strategy.

    Args:
        moves: the moves allowed in a state; called once for each state.
        payoff: see `Payoff`; called with increasing losses.
        decimals: losses that agree to so many decimals share a node.
    """
    options: dict[State, Sequence[Move[State]]] = {}
    layers: list[dict[State, FloatArray]] = [{start: np.zeros(1)}]
    for _ in range(depth):
        reached: dict[State, list[FloatArray]] = defaultdict(list)
        for state, losses in layers[-1].items():
            if state not in options:
                options[state] = moves(state)
            for move in options[state]:
                for _, loss, after in move.outcomes():
                    reached[after].append(np.round(losses + loss, decimals))
        if not reached:
            break
        layers.append({state: np.unique(np.concatenate(x)) for state, x in reached.items()})
    values = {state: payoff(state, losses) for state, losses in layers[-1].items()}
    choices: list[dict[State, NDArray[np.int64]]] = []
    for layer, below in zip(layers[-2::-1], layers[:0:-1], strict=True):
        values, chosen = _step_back(layer, below, values, options, payoff, decimals)
        choices.append(chosen)
    return Solution(
        value=float(values[start][0]),
        nodes=sum(len(losses) for layer in layers for losses in layer.values()),
        _layers=tuple(layers),
        _choices=tuple(reversed(choices)),
        _options=options,
        _payoff=payoff,
        _decimals=decimals,
    )


def _step_back(
    layer: dict[State, FloatArray],
    below: dict[State, FloatArray],
    values_below: dict[State, FloatArray],
    options: dict[State, Sequence[Move[State]]],
    payoff: Payoff[State],
    decimals: int,
) -> tuple[dict[State, FloatArray], dict[State, NDArray[np.int64]]]:
    """Return the values of a layer's nodes and the best move at each, from the layer below."""
    values: dict[State, FloatArray] = {}
    chosen: dict[State, NDArray[np.int64]] = {}
    for state, losses in layer.items():
        best = payoff(state, losses)
        choice = np.full(len(losses), _STOP)
        for j, move in enumerate(options[state]):
            gain = np.zeros(len(losses))
            for chance, loss, after in move.outcomes():
                place = np.searchsorted(below[after], np.round(losses + loss, decimals))
                gain += chance * values_below[after][place]
            choice = np.where(gain > best, j, choice)
            best = np.maximum(best, gain)
        values[state], chosen[state] = best, choice
    return values, chosen
