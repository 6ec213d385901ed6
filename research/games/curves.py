"""Hockey-stick curves x -> H_x of an adversary's possible last mechanisms, as floats.

They are exact up to float error and not rounded outward: they measure an adversary's gain and
never a ledger's charge.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from research.games.pairs import FloatArray


def nothing(x: FloatArray) -> FloatArray:
    """Return (1 - e^x)_+, the curve of a mechanism that reveals nothing."""
    value: FloatArray = -np.expm1(np.minimum(x, 0.0))
    return value


def gaussian(mu: float, x: FloatArray) -> FloatArray:
    """Return delta_mu(x) = Phi(-x/mu + mu/2) - e^x Phi(-x/mu - mu/2), in nats.

    Source: Dong, Roth and Su 2022, Cor 2.13; docs/theory.md section 1.
    """
    if mu <= 0:
        return nothing(x)
    # A loss may be infinite: H = 1 at x = -inf, and H = 0 at x = inf, where the formula gives nan.
    with np.errstate(invalid="ignore"):
        inside = ndtr(mu / 2 - x / mu) - np.exp(x + log_ndtr(-mu / 2 - x / mu))
    value: FloatArray = np.where(np.isinf(x), np.where(x < 0, 1.0, 0.0), np.maximum(inside, 0.0))
    return value


def randomized_response(epsilon: float, delta: float, x: FloatArray) -> FloatArray:
    """Return H_x of RR_{epsilon, delta} (Rogers 2016 Def 2.6)."""
    high = 1 / (1 + np.exp(-epsilon))
    value: FloatArray = delta + (1 - delta) * (
        high * nothing(x - epsilon) + (1 - high) * nothing(x + epsilon)
    )
    return value
