"""Stitching with its exact constants, which the paper rounds to 1.7, 0.72 and 5.2."""

from __future__ import annotations

import math
from typing import Final

from accountant.odometers.base import ULPS_UP, Boundary, log_inverse_delta_up, parameter

_KAPPA: Final = (2**0.25 + 2**-0.25) / math.sqrt(2)
LOG_ZETA: Final = 1.1331899568516131
"""ln zeta(1.4), rounded up."""


def stitched_exact(*, delta: str, v0: str) -> Boundary:
    """Return U(V) = kappa sqrt(v (1.4 ln(ln(2v/v0)/ln 2) + ln zeta(1.4) + L)) + V/2, rounded up.

    v = max(V, v0), so U is finite from the start; kappa = (2^(1/4) + 2^(-1/4))/sqrt(2).

    Raises: RequestInvalid: a parameter breaks its rule.
    Source: Howard et al. 2021 Thm 1 with eta = 2 and h(k) = (1+k)^1.4 zeta(1.4).
    """
    minimum = parameter(v0, "v0")
    constant = LOG_ZETA + log_inverse_delta_up(delta)

    def reading(v: float) -> float:
        if v == math.inf:
            return v
        counted = max(v, minimum)
        # ln(ln(2v/v0)/ln 2) = log1p(log2(v/v0)) is exactly 0 at v0.
        inner = 1.4 * math.log1p(math.log2(counted / minimum)) + constant
        return (_KAPPA * math.sqrt(counted * inner) + v / 2) * ULPS_UP

    return reading
