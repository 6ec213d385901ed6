"""The first advanced odometer without a guess of V: granularities 1/n^2, 2/n^2, ..., 1."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from accountant.amounts import UNIT, Units, precise, units_down
from accountant.errors import RequestInvalid
from accountant.field_rules import OdometerDelta, Requests
from accountant.odometers.advanced_2016 import half_of
from accountant.odometers.base import ULPS_UP, Boundary, Odometer, to_float

MIN_N: Final = 4
MAX_N: Final = 10**12


class Advanced2016N(Odometer, frozen=True, tag="advanced_2016_n"):
    """U = sum e(exp(e)-1)/2 + the following, with V = sum e^2 over bounds e on the loss.

    V in [1/n^2, 1]: 2 sqrt(V (1 + ln sqrt(3)) ln(4 log2(n)/delta)).
    Else: sqrt(2 (1/n^2 + V)(1 + ln(1 + n^2 V)/2) ln(4 log2(n)/delta)).

    `n` is a public constant, never the number of records. `delta`, below 1/e, is the whole:
    half of it is for the tail, half for the claims' own deltas. The union that stays within
    half of delta is the one of docs/theory.md section 4, not the printed one (errata).
    Source: Rogers 2016 Thm 6.5.
    """

    delta: OdometerDelta
    n: Requests

    sums = ("loss_epsilon_squared", "loss_kl_mean")
    exact = True

    def failure(self) -> Decimal:
        return half_of(self.delta)

    def most_delta(self) -> Units:
        return units_down(half_of(self.delta))

    def boundary(self) -> Boundary:
        if not MIN_N <= self.n <= MAX_N:
            raise RequestInvalid("n", f"must be between {MIN_N} and {MAX_N}", self.n)
        with precise():
            # ln(4 log2(n)/delta), where 4/delta = 2/(delta/2).
            log = float((2 * Decimal(self.n).ln() / Decimal(2).ln() / half_of(self.delta)).ln())
        log *= ULPS_UP
        inside = 4 * (1 + math.log(3) / 2) * log * ULPS_UP
        n_squared = self.n**2
        minimum = 1 / n_squared

        def reading(units: Units, mean_units: Units) -> float:
            v, mean = to_float(units), to_float(mean_units)
            # U jumps at both ends, so integers decide on which side V is. V is rounded up and
            # may have crossed an end; the result stays a bound: above 1 the second line holds
            # for every V, and at 1/n^2 the first line is the larger one.
            if units <= UNIT and units * n_squared >= UNIT:
                return (mean + math.sqrt(inside * v)) * ULPS_UP
            log_v = 1 + math.log1p(n_squared * v) / 2
            return (mean + math.sqrt(2 * (minimum + v) * log_v * log)) * ULPS_UP

        return reading
