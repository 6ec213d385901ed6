"""A line in intrinsic time, tightest where V is about y."""

from __future__ import annotations

import math
from decimal import Decimal

from accountant.amounts import precise
from accountant.field_rules import OdometerDelta, OdometerParameter
from accountant.odometers.base import (
    ULPS_UP,
    Boundary,
    Odometer,
    checked_delta,
    log_inverse_delta_up,
    parameter,
)


class Linear(Odometer, frozen=True, tag="linear"):
    """U(V) = sqrt(2 y L)/2 + sqrt(2 L)/(2 sqrt(y)) V + V/2, for any fixed y > 0.

    The papers' filter odometer has y = `y_star`. Source: Whitehouse 2023 Thm 2(1).
    """

    delta: OdometerDelta
    y: OdometerParameter

    def failure(self) -> Decimal:
        return checked_delta(self.delta)

    def boundary(self) -> Boundary:
        log_inverse_delta = log_inverse_delta_up(self.delta)
        y = parameter(self.y, "y")
        start = math.sqrt(2 * y * log_inverse_delta) / 2 * ULPS_UP
        slope = (math.sqrt(2 * log_inverse_delta) / (2 * math.sqrt(y)) + 0.5) * ULPS_UP

        def reading(v: float) -> float:
            return (start + slope * v) * ULPS_UP

        return reading


def y_star(*, epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the y at which the line touches fully_adaptive's bound where that is epsilon.

    (sqrt(2L + 2 epsilon) - sqrt(2L))^2, L = ln(1/delta), to 50 digits: any y > 0 is valid.

    Args:
        epsilon: in nats, > 0.
        delta: delta', in (0, 1).
    Source: Whitehouse 2023 Thm 2(1), whose printed +epsilon has to be +2 epsilon (errata).
    """
    with precise():
        twice = -2 * delta.ln()
        # The quotient keeps all digits; the difference of roots would cancel where epsilon is
        # far below L.
        root = 2 * epsilon / ((twice + 2 * epsilon).sqrt() + twice.sqrt())
        return root * root
