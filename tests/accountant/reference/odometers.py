"""Odometers, at a given intrinsic time."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import mpmath

from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.stitched import Stitched
from tests.accountant.reference.common import Bound, Inputs, Inverse, float_up


def y_star(inputs: Inputs) -> str:
    """Return y* of the filter odometer to 30 digits; any y > 0 is valid."""
    with mpmath.workdps(60):
        epsilon, log = mpmath.mpf(inputs["eg"]), -mpmath.log(mpmath.mpf(inputs["d"]))
        root = 2 * epsilon / (mpmath.sqrt(2 * log + 2 * epsilon) + mpmath.sqrt(2 * log))
        return str(mpmath.nstr(root**2, 30, min_fixed=-mpmath.inf, max_fixed=mpmath.inf))


def linear(inputs: Inputs) -> float:
    y = inputs.get("y") or y_star(inputs)
    return Linear(inputs["d"], y).boundary()(float_up(inputs["V"]))


def mixture(inputs: Inputs) -> float:
    return Mixture(inputs["d"], inputs["r"]).boundary()(float_up(inputs["V"]))


def one_sided(inputs: Inputs) -> float:
    return OneSidedMixture(inputs["d"], inputs["r"]).boundary()(float_up(inputs["V"]))


def stitched(inputs: Inputs) -> float:
    v = float_up(inputs["V"])
    if Fraction(inputs["V"]) == Fraction(inputs["v0"]):
        # Finite from v0 on; a reader's V comes a little above the true one.
        v *= 1 + 1e-14
    return Stitched(inputs["d"], inputs["v0"]).boundary()(v)


BOUNDS: Final[dict[str, Bound | Inverse]] = {
    "filter_odometer": Bound("upper", linear),
    "filter_odometer_ystar": Bound("equal", lambda i: Fraction(y_star(i))),
    "fig3_filter_odometer(eps tuned so y*=0.5)": Bound("upper", linear),
    "bm_expost_linear": Bound(
        "upper", lambda i: linear(i | {"V": str(Fraction(i["D"]) ** 2 / Fraction(i["t"]))})
    ),
    "mixture_odometer": Bound("upper", mixture),
    "fig3_mixture_two_sided": Bound("upper", mixture),
    "one_sided_mixture_odometer": Bound("upper", one_sided),
    "fig3_mixture_one_sided_closed": Bound("upper", one_sided),
    "stitched_odometer": Bound("upper", stitched),
    "fig3_stitched": Bound("upper", stitched),
}
