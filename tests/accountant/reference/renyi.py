"""Curves of Renyi divergence and their conversions."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.conversions.renyi import (
    bounded_range_renyi,
    laplace_renyi,
    randomized_response_renyi,
)
from accountant.conversions.renyi_dp import budget_cks
from accountant.conversions.renyi_subsampled import subsampled_gaussian_renyi
from tests.accountant.formulas.renyi_dp import budget_mironov, c_alpha, epsilon_cks, epsilon_mironov
from tests.accountant.formulas.renyi_mixture import mixture_delta
from tests.accountant.formulas.renyi_optimal import budget_optimal
from tests.accountant.reference.common import Bound, Inputs, Inverse


def order(inputs: Inputs) -> Fraction:
    return Fraction(inputs["a"])


def target(inputs: Inputs) -> dict[str, Decimal]:
    return {"epsilon": Decimal(inputs["eg"]), "delta": Decimal(inputs["d"])}


def reached(inputs: Inputs) -> dict[str, Decimal]:
    return {"spent": Decimal(inputs["B"]), "delta": Decimal(inputs["d"])}


def mixture(inputs: Inputs) -> Decimal:
    return mixture_delta(
        Decimal(inputs["eg"]),
        orders=[Decimal(a) for a in inputs["alphas"]],
        weights=[Decimal(w) for w in inputs["ws"]],
        spent=[Decimal(s) for s in inputs["Ssums"]],
    )


BOUNDS: Final[dict[str, Bound | Inverse]] = {
    "renyi_randomized_response": Bound(
        "upper", lambda i: randomized_response_renyi(order(i), epsilon=Fraction(i["e"]))
    ),
    "renyi_laplace": Bound("upper", lambda i: laplace_renyi(order(i), epsilon=Fraction(i["e"]))),
    "rdp_bounded_range_sup_t": Bound(
        "upper", lambda i: bounded_range_renyi(order(i), eta=Fraction(i["h"]))
    ),
    "renyi_subsampled_gaussian": Bound(
        "upper",
        lambda i: subsampled_gaussian_renyi(
            order(i), rate=Fraction(i["q"]), noise=Fraction(i["s"])
        ),
    ),
    "c_alpha": Bound("upper", lambda i: c_alpha(order(i))),
    "rdp_eps_mironov": Bound("upper", lambda i: epsilon_mironov(order(i), **reached(i))),
    "rdp_eps_cks": Bound("upper", lambda i: epsilon_cks(order(i), **reached(i))),
    "rdp_budget_mironov": Bound("lower", lambda i: budget_mironov(order(i), **target(i))),
    "rdp_budget_cks": Bound("lower", lambda i: budget_cks(order(i), **target(i))),
    "rdp_budget_opt": Bound("lower", lambda i: budget_optimal(order(i), **target(i))),
    "mixture_renyi_certified_delta": Bound("upper", mixture),
}
