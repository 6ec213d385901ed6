"""Each filter's rule and remaining amounts: docs/theory.md section 3, docs/decisions/0023."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from tests.faults.oracle import mixture, residue
from tests.faults.oracle.amounts import (
    INFINITE,
    UNIT,
    Range,
    Real,
    budget_range,
    mp,
    real,
    whole_up,
)
from tests.faults.oracle.worth import adds, atoms

Policy = dict[str, Any]
Amounts = tuple[float, ...]

EX_POST: Final = {"basic", "ex_post", "split"}
"""Filters that count the results of ex-post claims separately."""
_SUMS: Final[dict[str, tuple[str, ...]]] = {
    "basic": ("epsilon", "delta"),
    "advanced_2016": ("epsilon_squared", "kl_mean", "delta"),
    "fully_adaptive": ("intrinsic_time", "delta"),
    "zcdp": ("rho", "delta"),
    "zcdp_tight": ("rho", "delta"),
    "ex_post": ("ex_post_only", "delta"),
    "split": ("apart_rho", "apart_delta", "ex_post_epsilon", "ex_post_delta"),
    "unified_brownian": ("rho", "delta"),
    "gdp_residue": ("mu_squared", "delta"),
}
WITH_ORDERS: Final = {"renyi_weighted", "renyi_mixture"}
NAMES: Final = (*_SUMS, "renyi", *sorted(WITH_ORDERS), "optimal_homogeneous")
MOST_COUNTED: Final = 10**7
"""The largest number of claims that optimal_homogeneous may be opened for."""


def orders(policy: Policy) -> list[str]:
    """Return the orders of a Renyi filter, by the names of its sums."""
    texts = [policy["order"]] if policy["filter"] == "renyi" else policy["orders"]
    return [_plain(text) for text in texts]


def _plain(text: str) -> str:
    exact = Fraction(text)
    whole, rest = divmod(exact, 1)
    digits = f"{int(rest * UNIT):040d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def is_by_state(policy: Policy) -> bool:
    """Return whether a cost may depend on what was spent before."""
    return policy["filter"] == "gdp_residue" and not policy.get("outside")


def sums(policy: Policy) -> tuple[str, ...]:
    """Return the names of a filter's sums, first the one of its budget."""
    known = _SUMS.get(policy["filter"])
    if policy.get("outside"):
        return "dominating_mu_squared", "delta"
    if policy["filter"] == "optimal_homogeneous":
        return f"within_{_plain(policy['epsilon_each'])}", "delta"
    return known or tuple(f"renyi_{order}" for order in orders(policy))


def needs(policy: Policy) -> tuple[str, ...]:
    """Return the names of the sums that a claim must have a price in."""
    more = ("pure_epsilon",) if is_by_state(policy) else ()
    return sums(policy) + more


def deltas(policy: Policy) -> tuple[Fraction, Fraction]:
    """Return delta' and delta''."""
    claims = Fraction(policy["delta_for_claims"])
    return Fraction(policy["delta"]) - claims, claims


def delta_limit(policy: Policy) -> int:
    """Return the limit of all claims' own deltas together, in units."""
    return math.floor((deltas(policy)[1] + Fraction(policy.get("delta_ex_post", 0))) * UNIT)


def weights(policy: Policy) -> list[Fraction]:
    """Return each order's part of delta."""
    count = len(policy["orders"])
    weights = policy.get("weights")
    return [Fraction(1, count)] * count if weights is None else [Fraction(w) for w in weights]


def capacities(policy: Policy) -> tuple[Range, ...]:
    """Return the limit of each of the filter's sums, in its permitted written forms."""
    name, (own, claims) = policy["filter"], deltas(policy)
    of_claims = budget_range(claims)
    if name in {"basic", "ex_post"}:
        return budget_range(Fraction(policy["epsilon"])), of_claims
    if name == "zcdp" or (name == "unified_brownian" and policy.get("epsilon") is None):
        return budget_range(Fraction(policy["rho"])), of_claims
    if name in {"zcdp_tight", "unified_brownian"}:
        return budget_range(tight(policy["epsilon"], own)), of_claims
    if name == "split":
        shown = Fraction(policy["epsilon_ex_post"]), Fraction(policy.get("delta_ex_post", 0))
        main = budget_range(tight(policy["epsilon"], own))
        return main, of_claims, budget_range(shown[0]), budget_range(shown[1])
    if name == "optimal_homogeneous":
        count = responses(policy["epsilon_each"], policy["epsilon"], own)
        return budget_range(Fraction(count)), of_claims
    e = real(policy["epsilon"])
    if name == "fully_adaptive":
        twice = -2 * mp.log(real(own))
        root = 2 * e / (mp.sqrt(twice) + mp.sqrt(twice + 2 * e))
        return budget_range(root**2), of_claims
    if name == "gdp_residue":
        slack = Fraction(1, 10**18)
        return budget_range(residue.capacity(policy["epsilon"], own), slack), of_claims
    if name == "advanced_2016":
        mean = e - _advanced(policy, mp.mpf(0), mp.mpf(0))
        return budget_range(_longest(policy)), budget_range(mean), of_claims
    shares = [Fraction(1)] if name == "renyi" else weights(policy)
    return tuple(
        budget_range(_order_budget(e, real(order), real(share * own)))
        for order, share in zip(orders(policy), shares, strict=True)
    )


@lru_cache(maxsize=1024)
def responses(each: str, budget: str, own: Fraction) -> int:
    """Return the number of equal randomized responses that fit a budget fixed in advance."""
    low, high = 0, 1
    while _composed(high, each, budget) <= real(own):
        if high > MOST_COUNTED:
            return high
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if _composed(middle, each, budget) <= real(own) else (low, middle)
        )
    return low


def _composed(k: int, each: str, budget: str) -> Real:
    """Return the hockey-stick of k randomized responses, by logarithms of gamma functions."""
    e, first = real(each), (k + math.floor(Fraction(budget) / Fraction(each))) // 2 + 1
    if first > k:
        return mp.mpf(0)
    p = 1 / (1 + mp.exp(-e))
    log_ways = mp.loggamma(k + 1) - mp.loggamma(first + 1) - mp.loggamma(k - first + 1)
    mass = mp.exp(log_ways + first * mp.log(p) + (k - first) * mp.log1p(-p))
    total, odds, rest = mp.mpf(0), mp.exp(e), mp.exp(real(budget) - (2 * first - k) * e)
    for j in range(first, k + 1):
        more = mass * (1 - rest)
        total += more
        if j > k * p and mass < total * mp.mpf("1e-45"):
            break
        mass, rest = mass * (k - j) / (j + 1) * odds, rest / odds**2
    return total


@lru_cache(maxsize=1024)
def tight(budget: str, own: Fraction) -> Real:
    """Return the largest rho with delta'(rho, epsilon) <= delta', by the stationary order."""
    e, log = real(budget), -mp.log(real(own))

    def rho_at(order: Real) -> Real:
        return (e - mp.log1p(-1 / order)) / (2 * order - 1)

    low, high = mp.mpf(-40), mp.mpf(60)  # of ln(order - 1)
    for _ in range(210):
        middle = (low + high) / 2
        order = 1 + mp.exp(middle)
        below = (order - 1) ** 2 * rho_at(order) + mp.log(order) < log
        low, high = (middle, high) if below else (low, middle)
    return rho_at(1 + mp.exp(low))


def _order_budget(e: Real, alpha: Real, delta: Real) -> Real:
    less = alpha - 1
    log_c = less * mp.log1p(-1 / alpha) - mp.log(alpha)
    return e - (log_c - mp.log(delta)) / less


def _advanced(policy: Policy, v: Real, mean: Real) -> Real:
    e, delta = real(policy["epsilon"]), real(policy["delta"])
    scale = e**2 / (mp.mpf("28.04") * mp.log(1 / delta))
    root = 2 * (v + scale) * (1 + mp.log(v / scale + 1) / 2) * mp.log(2 / delta)
    return mean + mp.sqrt(root)


@lru_cache(maxsize=256)
def _longest_of(budget: str, delta: str) -> Real:
    policy = {"epsilon": budget, "delta": delta}
    low, high = mp.mpf(0), 2 * real(budget)
    for _ in range(210):
        middle = (low + high) / 2
        fits = _advanced(policy, middle, middle / 2) <= real(budget)
        low, high = (middle, high) if fits else (low, middle)
    return low


def _longest(policy: Policy) -> Real:
    return _longest_of(policy["epsilon"], policy["delta"])


def accepts(policy: Policy, claim: dict[str, Any], price: dict[str, Range]) -> bool:
    """Return whether some budget, however large, would admit the claim."""
    if policy["filter"] in WITH_ORDERS:
        return any(price[name][0] != INFINITE for name in sums(policy))
    if is_by_state(policy):
        each = [
            min(adds(atom, "mu_squared")[0], adds(atom, "pure_epsilon")[0])
            for atom, _ in atoms(claim)
        ]
        return price["delta"][0] != INFINITE and INFINITE not in each
    return all(price[name][0] != INFINITE for name in needs(policy))


def admits(policy: Policy, capacity: Amounts, totals: Amounts) -> bool:
    """Return whether totals obey the filter's rule."""
    within = [total <= most for total, most in zip(totals, capacity, strict=True)]
    if policy["filter"] in WITH_ORDERS and (any(within) or policy["filter"] == "renyi_weighted"):
        return any(within)
    if policy["filter"] == "renyi_mixture":
        return mixture.proves(_setting(policy), totals)
    if policy["filter"] == "advanced_2016" and all(within):
        v, mean = (real(Fraction(whole_up(total), UNIT)) for total in totals[:2])
        return bool(_advanced(policy, v, mean) <= real(policy["epsilon"]))
    return all(within)


def _setting(policy: Policy) -> mixture.Setting:
    own = deltas(policy)[0]
    return policy["epsilon"], own, tuple(orders(policy)), tuple(weights(policy))


def left(policy: Policy, capacity: Amounts, totals: Amounts) -> Amounts:
    """Return the remaining amount of each sum."""
    room = [most - total for total, most in zip(totals, capacity, strict=True)]
    return tuple(max(0, each) for each in room) if "renyi_" in policy["filter"] else tuple(room)


def spent_part(policy: Policy, capacity: Amounts, totals: Amounts) -> Fraction:
    """Return the spent part of the additive budget in its written form: docs/decisions/0023."""
    parts = [
        Fraction(whole_up(total), int(most)) if most and total != INFINITE else Fraction(2)
        for total, most in zip(totals, capacity, strict=True)
    ]
    name = policy["filter"]
    if name == "split":
        return max(parts[0], parts[2])
    if name == "renyi_weighted":
        return min(Fraction(1), *parts)
    if name == "renyi_mixture":
        return mixture.spent_part(_setting(policy), totals)
    if name == "advanced_2016":
        above = max(0, 2 * whole_up(totals[1]) - whole_up(totals[0]))
        return min(Fraction(1), parts[0] + Fraction(above, 2 * int(capacity[1])))
    return parts[0]
