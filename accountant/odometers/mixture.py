"""A two-sided Gaussian mixture of lines."""

from __future__ import annotations

import math
from decimal import Decimal

from accountant.field_rules import OdometerDelta, OdometerParameter
from accountant.odometers.base import (
    ULPS_UP,
    Boundary,
    Odometer,
    checked_delta,
    log_inverse_delta_up,
    parameter,
)


class Mixture(Odometer, frozen=True, tag="mixture"):
    """U(V) = sqrt(2 (V+r) ln(sqrt((V+r)/r) / delta')) + V/2, for any fixed r > 0.

    Source: Whitehouse 2023 Thm 2(2), (r + V) inside the root (errata).
    """

    delta: OdometerDelta
    r: OdometerParameter

    def failure(self) -> Decimal:
        return checked_delta(self.delta)

    def boundary(self) -> Boundary:
        log_inverse_delta = log_inverse_delta_up(self.delta)
        r = parameter(self.r, "r")

        def reading(v: float) -> float:
            if v == math.inf:
                return v
            # ln(sqrt((V+r)/r)) = log1p(V/r)/2 keeps all digits where V is far below r.
            log = log_inverse_delta + math.log1p(v / r) / 2
            return (math.sqrt(2 * (v + r) * log) + v / 2) * ULPS_UP

        return reading
