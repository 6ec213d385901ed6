"""Lines stitched over geometric epochs of intrinsic time: the iterated-logarithm rate."""

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


class Stitched(Odometer, frozen=True, tag="stitched"):
    """U(V) = 1.7 sqrt(V (ln ln(2V/v0) + 0.72 ln(5.2/delta'))) + V/2 for V >= v0, else infinite.

    Source: Whitehouse 2023 Thm 2(3).
    """

    delta: OdometerDelta
    v0: OdometerParameter

    def failure(self) -> Decimal:
        return checked_delta(self.delta)

    def boundary(self) -> Boundary:
        # Any v0 is valid. This one is a little smaller than the policy's, because `v` is V
        # rounded up by at most 2.1e-14: where `v` reaches `minimum`, the true V reaches v0.
        v0 = parameter(self.v0, "v0") * (1 - 1e-13)
        minimum = v0 * (1 + 3e-14)
        constant = 0.72 * math.log(5.2 / delta_down(self.delta)) * ULPS_UP

        def reading(v: float) -> float:
            if v < minimum or v == math.inf:
                return math.inf
            log_log = math.log(math.log(2 * v / v0))
            return (1.7 * math.sqrt(v * (log_log + constant)) + v / 2) * ULPS_UP

        return reading
