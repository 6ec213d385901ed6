"""Claims and conversions between definitions of privacy."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import mpmath

from accountant.conversions.probabilistic import probabilistic_delta
from accountant.conversions.zcdp import bounded_range_rho, gaussian_rho, laplace_rho, pure_rho
from tests.accountant.reference.common import Bound, Inputs, Inverse, total


def brownian(inputs: Inputs) -> Fraction:
    # One Gaussian release of variance t: the square of its deviation is exact here.
    sigma = Fraction(str(mpmath.sqrt(mpmath.mpf(inputs["t"]))))
    assert sigma**2 == Fraction(inputs["t"])
    return gaussian_rho(sigma=sigma, sensitivity=Fraction(inputs["D"]))


BOUNDS: Final[dict[str, Bound | Inverse]] = {
    "intrinsic_time": Bound("upper", lambda i: total(i, "intrinsic_time")),
    "pure_dp_rho_tight_sum": Bound("upper", lambda i: total(i, "rho")),
    "rho_pure_tanh": Bound("upper", lambda i: pure_rho(Fraction(i["e"]))),
    "rho_laplace": Bound("upper", lambda i: laplace_rho(Fraction(i["e"]))),
    "rho_br8": Bound("upper", lambda i: bounded_range_rho(Fraction(i["h"]))),
    "pdp_delta_safe": Bound(
        "upper",
        lambda i: probabilistic_delta(epsilon=Fraction(i["e"]), delta=Fraction(i["d"])),
    ),
    "bm_rho": Bound("upper", brownian),
}
