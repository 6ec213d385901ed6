"""The one-sided mixture in P8's closed form, for comparison with its exact root."""

from __future__ import annotations

import math

from accountant.odometers.base import ULPS_UP, Boundary, log_inverse_delta_up, parameter
from accountant.odometers.one_sided_mixture_exact import closed


def closed_plus_half(*, delta: str, r: str) -> Boundary:
    """Return U(V) = sqrt(2 (V+r) ln(sqrt((V+r)/r) / (2 delta') + 1/2)) + V/2, rounded up.

    Raises: RequestInvalid: a parameter breaks its rule.
    Source: docs/theory.md P8.
    """
    log_inverse_delta = log_inverse_delta_up(delta)
    mixed = parameter(r, "r")

    def reading(v: float) -> float:
        if v == math.inf:
            return v
        level = (log_inverse_delta + math.log1p(v / mixed) / 2) * ULPS_UP
        return (closed(level) * math.sqrt(v + mixed) + v / 2) * ULPS_UP

    return reading
