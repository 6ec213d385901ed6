"""The first published advanced odometer, with one free granularity beta."""

from __future__ import annotations

import math
from decimal import Decimal

from accountant.amounts import Units, precise, units_down
from accountant.errors import RequestInvalid
from accountant.field_rules import OdometerDelta, OdometerParameter
from accountant.odometers.base import (
    ULPS_UP,
    Boundary,
    Odometer,
    checked_delta,
    parameter,
)


class Advanced2016(Odometer, frozen=True, tag="advanced_2016"):
    """U = sum e(exp(e)-1)/2 + sqrt(2 (V+beta)(1 + ln(V/beta + 1)/2) ln(2/delta)), beta > 0.

    V = sum e^2 over bounds e on the loss, so there is none for a Gaussian. `delta`, below 1/e,
    is the whole: half of it is for the tail, half for the claims' own deltas.
    Source: Rogers 2016 Lemma 6.4.
    """

    delta: OdometerDelta
    beta: OdometerParameter

    sums = ("loss_epsilon_squared", "loss_kl_mean")

    def failure(self) -> Decimal:
        return half_of(self.delta)

    def most_delta(self) -> Units:
        return units_down(half_of(self.delta))

    def boundary(self) -> Boundary:
        with precise():
            scale = 2 * float(-half_of(self.delta).ln()) * ULPS_UP
        beta = parameter(self.beta, "beta")

        def reading(v: float, mean: float) -> float:
            # ln(V/beta + 1) = log1p(V/beta) keeps all digits where V is far below beta.
            log = 1 + math.log1p(v / beta) / 2
            return (mean + math.sqrt(scale * (v + beta) * log)) * ULPS_UP

        return reading


def half_of(delta: str) -> Decimal:
    """Return delta/2, the tail of the 2016 odometers.

    Raises: RequestInvalid: delta is not in (0, 1/e), where their concentration bound holds.
    """
    value = checked_delta(delta)
    with precise():
        if value.ln() >= -1:
            raise RequestInvalid("delta", "must be below 1/e", delta)
        return value / 2
