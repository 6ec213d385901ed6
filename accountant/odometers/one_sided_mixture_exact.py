"""A one-sided (half-normal) mixture of lines, with its exact boundary instead of a bound on it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from accountant.field_rules import OdometerDelta, OdometerParameter
from accountant.odometers.base import (
    ULPS_UP,
    Boundary,
    Odometer,
    checked_delta,
    log_inverse_delta_up,
    parameter,
)

_SQRT_HALF: Final = math.sqrt(0.5)
_SQRT_HALF_PI: Final = math.sqrt(math.pi / 2)
_SQRT_TWO_OVER_PI: Final = math.sqrt(2 / math.pi)
# Relative error of `_log_moment` in floats, including an erf of 8 ulps.
_ERROR: Final = 4e-15
_CLOSE: Final = 1e-12
_STEPS: Final = 30


class OneSidedMixtureExact(Odometer, frozen=True, tag="one_sided_mixture_exact"):
    """U(V) = s + V/2, the root s of 2 sqrt(r/(V+r)) e^(s^2/(2(V+r))) Phi(s/sqrt(V+r)) = 1/delta'.

    For any fixed r > 0. Source: Howard et al. 2021, one-sided normal mixture; with V = 2 sum rho
    docs/theory.md P3.
    """

    delta: OdometerDelta
    r: OdometerParameter

    def failure(self) -> Decimal:
        return checked_delta(self.delta)

    def boundary(self) -> Boundary:
        log_inverse_delta = log_inverse_delta_up(self.delta)
        r = parameter(self.r, "r")
        sqrt, log1p = math.sqrt, math.log1p

        def reading(v: float) -> float:
            if v == math.inf:
                return v
            moved = v + r
            level = (log_inverse_delta + log1p(v / r) / 2) * ULPS_UP
            return (root_above(level) * sqrt(moved) + v / 2) * ULPS_UP

        return reading


def root_above(level: float) -> float:
    """Return the least z >= 0 with z^2/2 + ln(2 Phi(z)) >= level, up to 1e-11 of it higher.

    With z = s/sqrt(V+r) and level = ln(1/delta') + ln((V+r)/r)/2 that is the mixture's
    equation; ln(2 Phi(z)) = log1p(erf(z/sqrt(2))) keeps all digits near z = 0. The result
    satisfies the inequality by more than the error of its evaluation.

    Args:
        level: in nats, 0 <= level < 700.
    """
    z = start = start_above(level)
    # The left side is increasing and convex: Newton's steps from above the root stay above it.
    for _ in range(_STEPS):
        erf, square = math.erf(z * _SQRT_HALF), z * z / 2
        slope = z + _SQRT_TWO_OVER_PI * math.exp(-square) / (1 + erf)
        step = (square + math.log1p(erf) - level) / slope
        if step <= _CLOSE * z:
            break
        z -= step
    for _ in range(_STEPS):
        if _log_moment(z) * (1 - _ERROR) >= level:
            return z
        z *= ULPS_UP
    return start


def start_above(level: float) -> float:
    """Return a z that is not below the root, in closed form.

    By P8, e^level <= 2 e^(z^2/2) Phi(z) where 2 e^(z^2/2) - 1 = e^level. The left side of the
    inequality is convex with slope sqrt(2/pi) at 0, so a z with level <= z sqrt(2/pi) is also
    enough.
    """
    return min(closed(level), level * _SQRT_HALF_PI) * ULPS_UP


def closed(level: float) -> float:
    """Return z with 2 e^(z^2/2) - 1 = e^level."""
    return math.sqrt(2 * math.log1p(math.expm1(level) / 2))


def _log_moment(z: float) -> float:
    return z * z / 2 + math.log1p(math.erf(z * _SQRT_HALF))
