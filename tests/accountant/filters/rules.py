"""When each filter may admit, written from docs/theory.md section 3 and not from our code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from typing import Final

import mpmath

from accountant import claims as c
from accountant.policy import Policy
from tests.accountant import exact
from tests.accountant.exact import real

Mechanisms = Iterable[tuple[c.Claim, int]]
Limits = list[tuple[mpmath.mpf, mpmath.mpf]]
Rule = Callable[[Policy, Mechanisms], Limits | None]
"""From what ran (and how often) to pairs (value, limit): admitted while each value is within.

None where a claim of a kind is among it that the filter does not take.
"""


def single(claim: c.Claim, times: int = 1) -> list[tuple[c.Claim, int]]:
    """Return the single mechanisms of a claim, written without our own `atoms`."""
    if isinstance(claim, c.Repeat):
        return single(claim.claim, times * claim.times)
    if isinstance(claim, c.AllOf):
        return [found for part in claim.claims for found in single(part, times)]
    return [(claim, times)]


def delta(ran: Mechanisms) -> mpmath.mpf:
    return real(sum((exact.delta(claim) * n for claim, n in ran), Fraction(0)))


def epsilons(ran: Mechanisms) -> list[tuple[Fraction, int]] | None:
    found = [(exact.epsilon(claim), n) for claim, n in ran]
    if any(epsilon is None for epsilon, _ in found):
        return None
    return [(epsilon, n) for epsilon, n in found if epsilon is not None]


def rho(ran: Mechanisms) -> mpmath.mpf:
    return mpmath.fsum(exact.rho(claim) * n for claim, n in ran)


def own_delta(policy: Policy) -> tuple[str, str]:
    """Return (delta', delta'') of a policy that says both."""
    whole, claims = Fraction(policy.delta), Fraction(policy.delta_for_claims or 0)
    return str(whole - claims), str(claims)


@cache
def tight_rho(epsilon: str, own: str) -> mpmath.mpf:
    """Return the largest rho with delta'(rho, epsilon) <= delta', by its stationary order."""
    target, log = real(epsilon), -mpmath.log(real(own))

    def rho_at(order: mpmath.mpf) -> mpmath.mpf:
        return (target - mpmath.log1p(-1 / order)) / (2 * order - 1)

    low, high = mpmath.mpf(-40), mpmath.mpf(60)  # of ln(order - 1)
    for _ in range(400):
        middle = (low + high) / 2
        order = 1 + mpmath.exp(middle)
        below = (order - 1) ** 2 * rho_at(order) + mpmath.log(order) < log
        low, high = (middle, high) if below else (low, middle)
    return rho_at(1 + mpmath.exp(low))


def basic(policy: Policy, ran: Mechanisms) -> Limits | None:
    found = epsilons(ran)
    if found is None:
        return None
    total = sum((epsilon * n for epsilon, n in found), Fraction(0))
    return [(real(total), real(policy.epsilon or "")), (delta(ran), real(policy.delta))]


def advanced_2016(policy: Policy, ran: Mechanisms) -> Limits | None:
    found = epsilons(ran)
    if found is None:
        return None
    goal, whole = real(policy.epsilon or ""), real(policy.delta)
    v = mpmath.fsum(n * real(e) ** 2 for e, n in found)
    mean = mpmath.fsum(n * real(e) * mpmath.expm1(real(e)) / 2 for e, n in found)
    scale = goal**2 / (mpmath.mpf("28.04") * mpmath.log(1 / whole))
    root = 2 * (v + scale) * (1 + mpmath.log(v / scale + 1) / 2) * mpmath.log(2 / whole)
    return [(mean + mpmath.sqrt(root), goal), (delta(ran), whole / 2)]


def fully_adaptive(policy: Policy, ran: Mechanisms) -> Limits:
    own, claims = own_delta(policy)
    v = mpmath.fsum(exact.intrinsic_time(claim) * n for claim, n in ran)
    value = mpmath.sqrt(-2 * mpmath.log(real(own)) * v) + v / 2
    return [(value, real(policy.epsilon or "")), (delta(ran), real(claims))]


def zcdp(policy: Policy, ran: Mechanisms) -> Limits:
    return [(rho(ran), real(policy.rho or "")), (delta(ran), real(policy.delta))]


def zcdp_tight(policy: Policy, ran: Mechanisms) -> Limits:
    own, claims = own_delta(policy)
    return [(rho(ran), tight_rho(policy.epsilon or "", own)), (delta(ran), real(claims))]


def ex_post(policy: Policy, ran: Mechanisms) -> Limits | None:
    if not all(isinstance(claim, c.ExPost) for claim, _ in ran):
        return None
    return basic(policy, ran)


def split(policy: Policy, ran: Mechanisms) -> Limits:
    kept = [(claim, n) for claim, n in ran if not isinstance(claim, c.ExPost)]
    shown = [(claim, n) for claim, n in ran if isinstance(claim, c.ExPost)]
    total = sum((e * n for e, n in epsilons(shown) or []), Fraction(0))
    return [
        *zcdp_tight(policy, kept),
        (real(total), real(str(policy.epsilon_ex_post))),
        (delta(shown), real(str(policy.delta_ex_post))),
    ]


def unified_brownian(policy: Policy, ran: Mechanisms) -> Limits:
    return zcdp(policy, ran) if policy.epsilon is None else zcdp_tight(policy, ran)


def renyi(policy: Policy, ran: Mechanisms) -> Limits | None:
    return renyi_at(str(policy.order), policy.delta, policy, ran)


def renyi_at(order: str, part: str, policy: Policy, ran: Mechanisms) -> Limits | None:
    """Return the sum of one order's divergences, and what its part of delta leaves room for."""
    found = [(exact.renyi(claim, order), n) for claim, n in ran]
    if any(divergence is None for divergence, _ in found):
        return None
    alpha = real(order)
    less = alpha - 1
    log_c = less * mpmath.log(1 - 1 / alpha) - mpmath.log(alpha)
    limit = real(policy.epsilon or "") - (log_c - mpmath.log(real(part))) / less
    return [(mpmath.fsum(d * n for d, n in found if d is not None), limit)]


def renyi_weighted(policy: Policy, ran: Mechanisms) -> Limits | None:
    """Return the order that is furthest within its limit: one is enough."""
    assert isinstance(policy.orders, tuple)
    assert isinstance(policy.weights, tuple)
    limits: Limits = []
    for order, weight in zip(policy.orders, policy.weights, strict=True):
        part = str(Fraction(weight) * Fraction(policy.delta))
        limits += renyi_at(order, part, policy, ran) or []
    return [min(limits, key=lambda pair: pair[0] / pair[1])] if limits else None


def renyi_mixture(policy: Policy, ran: Mechanisms) -> Limits | None:
    """Return the delta that all orders prove together, at the worst loss (P5b)."""
    assert isinstance(policy.orders, tuple)
    assert isinstance(policy.weights, tuple)
    terms = []
    for order, weight in zip(policy.orders, policy.weights, strict=True):
        for spent, _ in renyi_at(order, policy.delta, policy, ran) or []:
            terms.append((real(order) - 1, real(weight), real(policy.epsilon or "") - spent))
    if not terms:
        return None

    def each(x: mpmath.mpf) -> list[mpmath.mpf]:
        return [w * mpmath.exp(p * (x + room)) for p, w, room in terms]

    powers = [p for p, _, _ in terms]
    low, high = mpmath.log1p(1 / max(powers)), mpmath.log1p(1 / min(powers))
    for _ in range(100):
        x = mpmath.sqrt(low * high)
        slope = mpmath.fsum(p * e for p, e in zip(powers, each(x), strict=True))
        rises = slope * mpmath.expm1(x) < mpmath.fsum(each(x))
        low, high = (x, high) if rises else (low, x)
    return [(-mpmath.expm1(-low) / mpmath.fsum(each(low)), real(policy.delta))]


@cache
def composed(k: int, each: str, epsilon: str) -> mpmath.mpf:
    """Return the hockey-stick of k randomized responses, every outcome added up."""
    e, goal = real(each), real(epsilon)
    p = 1 / (1 + mpmath.exp(-e))
    ways, mass = [], (1 - p) ** k
    for j in range(k + 1):
        ways.append(mass * max(mpmath.mpf(0), -mpmath.expm1(goal - (2 * j - k) * e)))
        mass = mass * (k - j) / (j + 1) * p / (1 - p)
    return mpmath.fsum(ways)


@cache
def most_composed(each: str, epsilon: str, own: str) -> int:
    """Return the most randomized responses that are (epsilon, delta')-DP together."""
    low, high = int(Fraction(epsilon) / Fraction(each)), int(Fraction(epsilon) / Fraction(each)) + 1
    while composed(high, each, epsilon) <= real(own):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if composed(middle, each, epsilon) <= real(own) else (low, middle)
        )
    return low


def optimal_homogeneous(policy: Policy, ran: Mechanisms) -> Limits | None:
    own, claims = own_delta(policy)
    each = str(policy.epsilon_each)
    found = epsilons(ran)
    if found is None or any(epsilon > Fraction(each) for epsilon, _ in found):
        return None
    count = sum(n for epsilon, n in found if epsilon)
    maximum = most_composed(each, policy.epsilon or "", own)
    return [(mpmath.mpf(count), mpmath.mpf(maximum)), (delta(ran), real(claims))]


RULES: Final[dict[str, Rule]] = {
    "basic": basic,
    "advanced_2016": advanced_2016,
    "fully_adaptive": fully_adaptive,
    "zcdp": zcdp,
    "zcdp_tight": zcdp_tight,
    "ex_post": ex_post,
    "split": split,
    "unified_brownian": unified_brownian,
    "renyi": renyi,
    "renyi_weighted": renyi_weighted,
    "renyi_mixture": renyi_mixture,
    "optimal_homogeneous": optimal_homogeneous,
}
"""The filters whose rule is a function of what ran, in any order."""
