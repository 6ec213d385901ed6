"""Claims and conversions between definitions of privacy."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant import claims as c
from accountant.claims.promises import promise
from accountant.conversions.gdp import gdp_capacity, gdp_log_delta, mu_of_pure
from accountant.conversions.laplace_reduction import stay_probability
from accountant.conversions.probabilistic import double_epsilon_tail
from accountant.conversions.residue import residue_after_pure
from accountant.conversions.standard_zcdp import standard_epsilon
from accountant.conversions.tight_zcdp import tight_epsilon
from accountant.conversions.zcdp import bounded_range_rho, laplace_rho, pure_rho
from tests.accountant.formulas.brownian import refinement_rho
from tests.accountant.formulas.gdp import gdp_epsilon
from tests.accountant.formulas.probabilistic import outside_twice_sharp
from tests.accountant.formulas.tight_zcdp import tight_log_delta
from tests.accountant.formulas.zcdp import bounded_range_mean_loss, pure_rho_half, standard_capacity
from tests.accountant.reference.common import Bound, Inputs, Inverse, total


def refinement(inputs: Inputs) -> Fraction:
    before = inputs.get("t_prev")
    return refinement_rho(
        sensitivity=Fraction(inputs["D"]),
        variance=Fraction(inputs.get("t") or inputs["t_new"]),
        previous=None if before is None else Fraction(before),
    )


def residue_after_range(mu: Decimal, claim: c.BoundedRange) -> Decimal | None:
    epsilon = promise(claim).pure_epsilon
    assert epsilon is not None
    return residue_after_pure(mu=mu, epsilon=epsilon)


CLAIMS: Final[dict[str, Bound | Inverse]] = {
    "intrinsic_time": Bound("upper", lambda i: total(i, "intrinsic_time")),
    "pure_dp_rho_tight_sum": Bound("upper", lambda i: total(i, "rho")),
    "rho_pure_half": Bound("upper", lambda i: pure_rho_half(Fraction(i["e"]))),
    "rho_pure_tanh": Bound("upper", lambda i: pure_rho(Fraction(i["e"]))),
    "rho_laplace": Bound("upper", lambda i: laplace_rho(Fraction(i["e"]))),
    "rho_br8": Bound("upper", lambda i: bounded_range_rho(Fraction(i["h"]))),
    # Below every valid rho: a bound from below, for comparison only.
    "rho_br_kl": Bound("lower", lambda i: bounded_range_mean_loss(Fraction(i["h"]))),
    "pdp_delta_safe": Bound(
        "upper", lambda i: double_epsilon_tail(epsilon=Fraction(i["e"]), delta=Fraction(i["d"]))
    ),
    "pdp_delta_sharp": Bound(
        "upper", lambda i: outside_twice_sharp(epsilon=Fraction(i["e"]), delta=Fraction(i["d"]))
    ),
    "bm_rho": Bound("upper", refinement),
    "bm_refine_rho": Bound("upper", refinement),
    "lnr_stay_prob": Bound(
        "equal",
        lambda i: stay_probability(smaller=Fraction(i["b_small"]), larger=Fraction(i["b_large"])),
    ),
}

ZCDP: Final[dict[str, Bound | Inverse]] = {
    "zcdp_epsilon_standard": Bound(
        "upper", lambda i: standard_epsilon(rho=Decimal(i["rho"]), delta=Decimal(i["d"]))
    ),
    "zcdp_tanh_epsilon_standard": Bound(
        "upper", lambda i: standard_epsilon(rho=total(i, "rho"), delta=Decimal(i["d"]))
    ),
    "zcdp_capacity_standard": Bound(
        "lower", lambda i: standard_capacity(epsilon=Decimal(i["eg"]), delta=Decimal(i["d"]))
    ),
    "zcdp_epsilon_tight": Bound(
        "upper", lambda i: tight_epsilon(rho=Decimal(i["rho"]), delta=Decimal(i["d"]))
    ),
    "zcdp_tanh_epsilon_tight": Bound(
        "upper", lambda i: tight_epsilon(rho=total(i, "rho"), delta=Decimal(i["d"]))
    ),
    "zcdp_delta_tight": Bound(
        "upper",
        lambda i: tight_log_delta(rho=Decimal(i["rho"]), epsilon=Decimal(i["eg"])),
        log=True,
    ),
}

GDP: Final[dict[str, Bound | Inverse]] = {
    "mu_of_pure": Bound("upper", lambda i: mu_of_pure(Decimal(i["e"]))),
    "gdp_delta": Bound(
        "upper",
        lambda i: gdp_log_delta(mu=Decimal(i["mu"]), epsilon=Decimal(i["eg"])),
        log=True,
    ),
    "gdp_eps": Bound("upper", lambda i: gdp_epsilon(mu=Decimal(i["mu"]), delta=Decimal(i["d"]))),
    "gdp_capacity_mu": Bound(
        "lower", lambda i: gdp_capacity(epsilon=Decimal(i["eg"]), delta=Decimal(i["d"]))
    ),
    "gdp_residue_after_pure": Bound(
        "lower", lambda i: residue_after_pure(mu=Decimal(i["mu"]), epsilon=Decimal(i["e"]))
    ),
    "gdp_residue_after_bounded_range": Bound(
        "lower", lambda i: residue_after_range(Decimal(i["mu"]), c.BoundedRange(i["h"]))
    ),
}

BOUNDS: Final = CLAIMS | ZCDP | GDP
