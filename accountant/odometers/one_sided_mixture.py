"""A one-sided (half-normal) mixture of lines, in closed form."""

from __future__ import annotations

import math
from decimal import Decimal

from accountant.field_rules import OdometerDelta, OdometerParameter
from accountant.odometers.base import (
    ULPS_UP,
    Boundary,
    Odometer,
    checked_delta,
    delta_down,
    parameter,
)


class OneSidedMixture(Odometer, frozen=True, tag="one_sided_mixture"):
    """U(V) = sqrt(2 (V+r) ln(sqrt((V+r)/r) / (2 delta') + 1)) + V/2, for any fixed r > 0.

    Source: the poster of Whitehouse 2023, with its missing V/2 (errata); Howard et al. 2021.
    """

    delta: OdometerDelta
    r: OdometerParameter

    def failure(self) -> Decimal:
        return checked_delta(self.delta)

    def boundary(self) -> Boundary:
        delta = delta_down(self.delta)
        r = parameter(self.r, "r")
        scale = 1 / (2 * delta)
        sqrt, log1p = math.sqrt, math.log1p

        def reading(v: float) -> float:
            moved = v + r
            return (sqrt(2 * moved * log1p(scale * sqrt(moved / r))) + v / 2) * ULPS_UP

        return reading
