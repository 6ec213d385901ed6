"""Odometers, at a given intrinsic time or after a list of claims."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant import claims as c
from accountant.amounts import UNIT, Units, format_units, units_up
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.odometers import Odometer, Reader, sums_of
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.base import Boundary
from accountant.odometers.closed_plus_half import closed_plus_half
from accountant.odometers.linear import Linear, y_star
from accountant.odometers.lines import discrete_mixture, lines_min
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from accountant.odometers.stitched_exact import stitched_exact
from tests.accountant.reference.common import Bound, Inputs, Inverse, float_up

ToBoundary = Callable[[Inputs], Boundary]


def star(inputs: Inputs) -> Decimal:
    return y_star(epsilon=Decimal(inputs["eg"]), delta=Decimal(inputs["d"]))


def linear(inputs: Inputs) -> Boundary:
    # Any y > 0 is valid: a policy writes it with at most 40 decimals.
    y = inputs.get("y") or format_units(units_up(star(inputs)))
    return Linear(inputs["d"], y).boundary()


def mixture(inputs: Inputs) -> Boundary:
    return Mixture(inputs["d"], inputs["r"]).boundary()


def one_sided(inputs: Inputs) -> Boundary:
    return OneSidedMixture(inputs["d"], inputs["r"]).boundary()


def one_sided_exact(inputs: Inputs) -> Boundary:
    return OneSidedMixtureExact(inputs["d"], inputs["r"]).boundary()


def plus_half(inputs: Inputs) -> Boundary:
    return closed_plus_half(delta=inputs["d"], r=inputs["r"])


def exact_constants(inputs: Inputs) -> Boundary:
    return stitched_exact(delta=inputs["d"], v0=inputs["v0"])


def lines(inputs: Inputs) -> Boundary:
    slopes, weights = tuple(inputs["lams"]), tuple(inputs["ws"])
    return lines_min(delta=inputs["d"], slopes=slopes, weights=weights)


def mixed_lines(inputs: Inputs) -> Boundary:
    slopes, weights = tuple(inputs["lams"]), tuple(inputs["ws"])
    return discrete_mixture(delta=inputs["d"], slopes=slopes, weights=weights)


def at_v(boundary: ToBoundary) -> Bound:
    return Bound("upper", lambda i: boundary(i)(float_up(i["V"])))


def after_brownian(boundary: ToBoundary) -> Bound:
    """Read after one Gaussian release: V = D^2/t."""

    def ours(inputs: Inputs) -> float:
        v = Fraction(inputs["D"]) ** 2 / Fraction(inputs["t"])
        return boundary(inputs)(float_up(str(v)))

    return Bound("upper", ours)


def stitched(inputs: Inputs) -> float:
    v = float_up(inputs["V"])
    if Fraction(inputs["V"]) == Fraction(inputs["v0"]):
        # Finite from v0 on; a reader's V comes a little above the true one.
        v *= 1 + 1e-14
    return Stitched(inputs["d"], inputs["v0"]).boundary()(v)


def read(odometer: Odometer, inputs: Inputs) -> float:
    """Return what a ledger shows after the pure claims of a run-length encoded list."""
    sums = sums_of(odometer)
    totals: list[Units] = [0] * len(sums)
    for epsilon, count in inputs["rle"]:
        amounts = price(check_claim(c.Pure(epsilon)), sums).amounts
        totals = [a + b * count for a, b in zip(totals, amounts, strict=True)]
    return Reader(odometer, sums, UNIT)(tuple(totals))


def with_beta(inputs: Inputs) -> float:
    return read(Advanced2016(inputs["dg"], inputs["beta"]), inputs)


def with_n(inputs: Inputs) -> float:
    return read(Advanced2016N(inputs["dg"], int(Decimal(inputs["n"]))), inputs)


BOUNDS: Final[dict[str, Bound | Inverse]] = {
    "filter_odometer": at_v(linear),
    "filter_odometer_ystar": Bound("equal", star),
    "fig3_filter_odometer(eps tuned so y*=0.5)": at_v(linear),
    "bm_expost_linear": after_brownian(linear),
    "mixture_odometer": at_v(mixture),
    "fig3_mixture_two_sided": at_v(mixture),
    "one_sided_mixture_odometer": at_v(one_sided),
    "fig3_mixture_one_sided_closed": at_v(one_sided),
    "odo_mix1_closed_plus_half": at_v(plus_half),
    "one_sided_mixture_odometer_exact": at_v(one_sided_exact),
    "fig3_mixture_one_sided_exact": at_v(one_sided_exact),
    "bm_expost_mix1": after_brownian(one_sided_exact),
    "stitched_odometer": Bound("upper", stitched),
    "fig3_stitched": Bound("upper", stitched),
    "stitched_odometer_exact_constants": at_v(exact_constants),
    "fig3_stitched_exact_constants": at_v(exact_constants),
    "odo_lines_min": at_v(lines),
    "odo_discrete_mixture": at_v(mixed_lines),
    "advanced_2016_odometer_beta": Bound("upper", with_beta),
    "fig3_RRUV_L6.4(beta=0.5)": Bound("upper", with_beta),
    "advanced_2016_odometer": Bound("upper", with_n),
    "fig3_RRUV_thm6.5(n=1000)": Bound("upper", with_n),
}
