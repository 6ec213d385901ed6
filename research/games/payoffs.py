"""Payoffs of an adversary at a node: a hockey-stick, a crossing, a moment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from research.games import curves
from research.games.optimal_stopping import Payoff, State
from research.games.pairs import FloatArray

Curve = Callable[[FloatArray], FloatArray]


def hockey_stick(
    epsilon: float, last: Callable[[State], list[Curve]] | None = None
) -> Payoff[State]:
    """Return (1 - e^{epsilon - L})_+, whose mean is H_epsilon of the whole game.

    Args:
        epsilon: of the guarantee, in nats.
        last: the hockey-stick curves x -> H_x of the mechanisms that a state still admits as
            the last one; at loss L such a mechanism gains H_{epsilon - L}.
    """

    def payoff(state: State, losses: FloatArray) -> FloatArray:
        gain = curves.nothing(epsilon - losses)
        for curve in last(state) if last else ():
            gain = np.maximum(gain, curve(epsilon - losses))
        return gain

    return payoff


def hockey_stick_at(position: Callable[[State], float]) -> Payoff[State]:
    """Return the payoff of `hockey_stick` with the epsilon of the adversary's last state."""
    return lambda state, losses: curves.nothing(position(state) - losses)


def crossing(bound: Callable[[State], float], *, tie: float = 1e-9) -> Payoff[State]:
    """Return 1 where the loss is above the state's bound; the mean is P(it ever is above).

    Args:
        tie: losses up to so many nats above the bound count as equal to it, for float error.
    """

    def payoff(state: State, losses: FloatArray) -> FloatArray:
        return np.where(losses > bound(state) + tie, 1.0, 0.0)

    return payoff


def moment(order: float, last: Callable[[State], list[float]] | None = None) -> Payoff[State]:
    """Return e^{order L}, whose mean zCDP bounds by e^{order (order + 1) rho}.

    Args:
        last: ln E e^{order L} of the mechanisms that a state still admits as the last one.
    """

    def payoff(state: State, losses: FloatArray) -> FloatArray:
        more = max(last(state), default=0.0) if last else 0.0
        return np.exp(order * losses + max(more, 0.0))

    return payoff
