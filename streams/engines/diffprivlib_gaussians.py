"""The delta of diffprivlib's Gaussian mechanisms, computed from the noise that they draw.

diffprivlib searches for a scale in floating point. Its search misses the delta by a part in 10^5
for whole numbers, and by any factor where delta is small or epsilon large.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any, Final

import numpy as np

from accountant.amounts import CONTEXT
from accountant.conversions.gdp import gdp_log_delta
from accountant.errors import RequestInvalid

_ABOVE_EXP: Final = Decimal("1." + "0" * 49 + "1")
_ABOVE_SUMS: Final = Decimal("1.000000001")
"""Above the errors of a sum of doubles, each of which is off by a few units in its last place."""


def gaussian_delta(mechanism: Any, *, discrete: bool) -> Decimal:
    """Return the delta of a mechanism's noise at its epsilon, rounded up.

    Args:
        mechanism: a `Gaussian`, a `GaussianAnalytic` or a `GaussianDiscrete`.
        discrete: its noise is a whole number.
    Raises: RequestInvalid: its noise has no scale.
    Source: Balle and Wang 2018, Thm 5; Canonne, Kamath and Steinke 2020, Thm 7.
    """
    scale, sensitivity = float(mechanism._scale), float(mechanism.sensitivity)
    if not (isfinite(scale) and isfinite(mechanism.epsilon) and (scale > 0 or not sensitivity)):
        raise RequestInvalid("mechanism", "must have noise of a finite scale", scale)
    if not sensitivity:
        return Decimal(0)
    if discrete:
        found = Decimal(_of_whole_numbers(scale, sensitivity, mechanism.epsilon))
        return CONTEXT.multiply(found, _ABOVE_SUMS)
    mu = Fraction(sensitivity) / Fraction(scale)
    found = CONTEXT.exp(gdp_log_delta(mu=mu, epsilon=Fraction(mechanism.epsilon)))
    return CONTEXT.multiply(found, _ABOVE_EXP)


def _of_whole_numbers(scale: float, sensitivity: float, epsilon: float) -> float:
    """Return the sum of P(k) - e^epsilon P(k + sensitivity), where it is positive."""
    start = np.floor(epsilon * scale**2 / sensitivity - sensitivity / 2) + 1
    k = start + np.arange(np.ceil(40 * scale) + 40)
    lost = (2 * k + sensitivity) * sensitivity / (2 * scale**2)
    above = -np.exp(-(k**2) / (2 * scale**2)) * np.expm1(epsilon - lost)
    others = np.exp(-(np.arange(1, np.ceil(40 * scale) + 40) ** 2) / (2 * scale**2))
    return float(np.sum(np.maximum(above, 0)) / (1 + 2 * np.sum(others)))
