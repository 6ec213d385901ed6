"""The reference values of tests/vectors, and what they are compared with.

`OURS` maps a row's bound to the function that answers it. To implement another bound, add
its name there. `INVERSES` is for formulas that a filter only holds the inverse of.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import mpmath

from accountant import claims as c
from accountant.amounts import INFINITE, UNIT, Units
from accountant.claims import checked
from accountant.conversions.probabilistic import probabilistic_delta
from accountant.conversions.zcdp import bounded_range_rho, gaussian_rho, laplace_rho, pure_rho
from accountant.filters import FILTERS
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.stitched import Stitched
from accountant.policy import ParsedBudget
from accountant.totals import price

Inputs = dict[str, Any]
Number = Fraction | float | int

ROWS: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "bounds.json").read_text()
)


def total(inputs: Inputs, name: str) -> Fraction:
    """Return one of our sums after the pure claims of a run-length encoded list."""
    units = 0
    for epsilon, count in inputs["rle"]:
        amount = price(checked(c.Repeat(c.Pure(epsilon), count)), (name,)).amounts[0]
        assert amount != INFINITE
        units += int(amount)
    return Fraction(units, UNIT)


def budget(epsilon: str, delta: str, *, for_claims: str = "0") -> ParsedBudget:
    return ParsedBudget(
        epsilon=Decimal(epsilon),
        rho=None,
        delta_for_claims=Decimal(for_claims),
        delta_for_filter=Decimal(delta),
    )


def capacity(name: str, epsilon: str, delta: str) -> Fraction:
    return Fraction(int(FILTERS[name].capacity(budget(epsilon, delta))[0]), UNIT)


def admitted(inputs: Inputs) -> int:
    """Return how many claims the fully adaptive filter admits before it first refuses."""
    kind = FILTERS["fully_adaptive"]
    limits = kind.capacity(budget(inputs["eg"], inputs["d1"], for_claims=inputs["d2"]))
    spent: tuple[Units, ...] = (0,) * len(limits)
    count = 0
    for (epsilon, times), (delta, _) in zip(inputs["rle_eps"], inputs["rle_del"], strict=True):
        asked = price(checked(c.Approximate(epsilon, delta)), kind.sums)
        for _ in range(times):
            after = kind.charge(limits, spent, asked)
            if after is None:
                return count
            spent = after
            count += 1
    return count


def float_up(text: str) -> float:
    value = float(Fraction(text))
    return value if Fraction(value) >= Fraction(text) else math.nextafter(value, math.inf)


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


def brownian(inputs: Inputs) -> Fraction:
    # One Gaussian release of variance t: the square of its deviation is exact here.
    sigma = Fraction(str(mpmath.sqrt(mpmath.mpf(inputs["t"]))))
    assert sigma**2 == Fraction(inputs["t"])
    return gaussian_rho(sigma=sigma, sensitivity=Fraction(inputs["D"]))


UPPER, LOWER, EQUAL = "upper", "lower", "equal"

OURS: Final[dict[str, tuple[str, Callable[[Inputs], Number | Decimal | None]]]] = {
    # Sums.
    "intrinsic_time": (UPPER, lambda i: total(i, "intrinsic_time")),
    "pure_dp_rho_tight_sum": (UPPER, lambda i: total(i, "rho")),
    "lecture_fig1_basic": (UPPER, lambda i: total(i, "epsilon")),
    # Claims.
    "rho_pure_tanh": (UPPER, lambda i: pure_rho(Fraction(i["e"]))),
    "rho_laplace": (UPPER, lambda i: laplace_rho(Fraction(i["e"]))),
    "rho_br8": (UPPER, lambda i: bounded_range_rho(Fraction(i["h"]))),
    "pdp_delta_safe": (
        UPPER,
        lambda i: probabilistic_delta(epsilon=Fraction(i["e"]), delta=Fraction(i["d"])),
    ),
    "bm_rho": (UPPER, brownian),
    # Filters.
    "zcdp_capacity_tight": (LOWER, lambda i: capacity("zcdp_tight", i["eg"], i["d"])),
    "filter_N_WRRW": (EQUAL, admitted),
    # Odometers.
    "filter_odometer": (UPPER, linear),
    "filter_odometer_ystar": (EQUAL, lambda i: Fraction(y_star(i))),
    "fig3_filter_odometer(eps tuned so y*=0.5)": (UPPER, linear),
    "bm_expost_linear": (
        UPPER,
        lambda i: linear(i | {"V": str(Fraction(i["D"]) ** 2 / Fraction(i["t"]))}),
    ),
    "mixture_odometer": (UPPER, mixture),
    "fig3_mixture_two_sided": (UPPER, mixture),
    "one_sided_mixture_odometer": (UPPER, one_sided),
    "fig3_mixture_one_sided_closed": (UPPER, one_sided),
    "stitched_odometer": (UPPER, stitched),
    "fig3_stitched": (UPPER, stitched),
}

INVERSES: Final[dict[str, Callable[[str, Inputs], tuple[Fraction, Fraction]]]] = {
    # A filter stores the inverse of its formula: from a row's value back to its total.
    "fully_adaptive_filter_epsilon": lambda value, i: (
        capacity("fully_adaptive", value, i["d"]),
        sum((Fraction(e) ** 2 * n for e, n in i["rle"]), Fraction(0)),
    ),
    "zcdp_epsilon_tight": lambda value, i: (
        capacity("zcdp_tight", value, i["d"]),
        Fraction(i["rho"]),
    ),
    "zcdp_delta_tight": lambda value, i: (
        capacity("zcdp_tight", i["eg"], value),
        Fraction(i["rho"]),
    ),
}
