"""Between Gaussian DP and (epsilon, delta)-DP, exactly (Dong, Roth and Su 2022).

A mechanism is mu-GDP if telling two neighbours apart from its output is no easier than
telling N(0, 1) from N(mu, 1). With x = epsilon/mu - mu/2 and Mills' ratio R,

    delta_mu(epsilon) = Phi(-x) - e^epsilon Phi(-x - mu) = phi(x) (R(x) - R(x + mu)),

since e^epsilon phi(x + mu) = phi(x). It increases with mu and falls with epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

from accountant.amounts import above, below
from accountant.conversions.normal import central, log_density, log_upper_tail, mills
from accountant.conversions.outward import (
    Real,
    decimal_down,
    decimal_up,
    expm1,
    log1p,
    log_probability,
    working,
)
from accountant.conversions.roots import Evaluate, increasing_root

_WORKED: Final = 50
_KEPT: Final = 30
# Below this x, 1 - delta is small, so `profile` computes it directly instead of from delta.
_NEAR_ONE: Final = Decimal("-1.5")


@dataclass(frozen=True, slots=True)
class Profile:
    """delta_mu(epsilon) and its derivatives, as logarithms.

    Attributes:
        log_delta: ln delta.
        log_rest: ln(1 - delta).
        log_by_mu: the logarithm of the derivative by mu, ln phi(x).
        log_by_epsilon: the logarithm of minus the derivative by epsilon, ln(phi(x) R(x + mu)).
    """

    log_delta: Decimal
    log_rest: Decimal
    log_by_mu: Decimal
    log_by_epsilon: Decimal


def profile(*, mu: Decimal, epsilon: Decimal, digits: int) -> Profile:
    """Return delta_mu(epsilon), 1 - delta and its slopes, all to `digits` digits.

    Args:
        mu: > 0.
        epsilon: in nats, >= 0.
    Both logarithms have a relative error and, as long as they are large, an absolute error
    below 10^-digits, so delta and 1 - delta have that relative error. Rounded to nearest:
    `gdp_log_delta` and the others below round outward.
    Source: the module's formula.
    """
    with working(digits + 10):
        rough = epsilon / mu
    size = max(0, rough.adjusted() + 1, mu.adjusted() + 1)
    with working(digits + 2 * size + 10):  # x^2/2 needs `digits` digits after the point
        x = epsilon / mu - mu / 2
    with working(digits + 2 * size + 20):
        density = log_density(x, digits=digits + 5)
        further = mills(x + mu, digits=digits + 5)
        if x < _NEAR_ONE:
            log_rest = density + (mills(-x, digits=digits + 5) + further).ln()
            log_delta = log1p(-log_rest.exp(), digits=digits + 5)
        else:
            log_delta = density + _gap(x, mu, digits=digits + 5).ln()
            log_rest = log1p(-log_delta.exp(), digits=digits + 5)
        return Profile(log_delta, log_rest, density, density + further.ln())


def _gap(x: Decimal, mu: Decimal, *, digits: int) -> Decimal:
    """Return R(x) - R(x + mu), computed with as many more digits as the difference loses."""
    with working(digits + 10):
        lost = max(0, ((abs(x) + 1 + mu) / mu).adjusted() + 2)
    while True:
        with working(digits + lost + 10):
            near, far = mills(x, digits=digits + lost), mills(x + mu, digits=digits + lost)
            gap = near - far
            if gap > near.scaleb(-lost):
                return gap
        lost *= 2


def gdp_log_delta(*, mu: Real, epsilon: Real) -> Decimal:
    """Return the natural logarithm of delta_mu(epsilon), rounded up.

    For deltas such as 1e-4000 that no float holds. -Infinity for mu = 0.

    Args:
        mu: >= 0.
        epsilon: in nats, >= 0.
    Source: Dong, Roth and Su 2022, Cor 2.13; docs/theory.md section 1.
    """
    if not mu:
        return Decimal("-Infinity")
    found = profile(mu=decimal_up(mu), epsilon=decimal_down(epsilon), digits=_WORKED)
    return above(found.log_delta, digits=_KEPT)


@lru_cache(maxsize=4096)
def gdp_capacity(*, epsilon: Real, delta: Real) -> Decimal:
    """Return the largest mu with delta_mu(epsilon) <= delta, rounded down.

    Args:
        epsilon: in nats, >= 0.
        delta: 0 < delta < 1.
    Raises: ArithmeticError: delta is out of range, or no mu found is proved small enough.
    Source: as `gdp_log_delta`. The result is proved by evaluating delta there.
    """
    eps, log_delta = decimal_down(epsilon), _log_down(delta)
    low = high = Decimal(1)
    factor = 2
    while gdp_log_delta(mu=low, epsilon=eps) > log_delta:
        low, high, factor = low / factor, low, factor * 2
    while gdp_log_delta(mu=high, epsilon=eps) <= log_delta:
        low, high = high, high * 2

    def evaluate(mu: Decimal) -> tuple[Decimal, Decimal]:
        found = profile(mu=mu, epsilon=eps, digits=_WORKED)
        return found.log_delta - log_delta, (found.log_by_mu - found.log_delta).exp()

    root = increasing_root(evaluate, low=low, high=high, start=low, digits=_WORKED - 15)
    for digits in (_KEPT, 25, 20, 15):
        mu = below(root, digits=digits)
        if gdp_log_delta(mu=mu, epsilon=eps) <= log_delta:
            return mu
    raise ArithmeticError(f"no mu proved for epsilon = {eps}, delta = {delta}")


def _log_down(delta: Real) -> Decimal:
    value = decimal_down(delta)
    if value >= 1:
        raise ArithmeticError(f"delta must be below 1, got {delta}")
    return below(log_probability(value, digits=_WORKED), digits=_KEPT + 5)


@lru_cache(maxsize=16_384)
def mu_of_pure(epsilon: Real) -> Decimal:
    """Return the least mu such that every epsilon-DP mechanism is mu-GDP, rounded up.

    mu = 2 Phi^-1(e^epsilon/(1 + e^epsilon)), so 2 (Phi(mu/2) - 1/2) = tanh(epsilon/2).

    Args:
        epsilon: in nats, >= 0.
    Raises: ArithmeticError: no mu found is proved large enough.
    Source: docs/theory.md section 1; the total variation of RR_epsilon is tanh(epsilon/2).
    """
    eps = decimal_up(epsilon)
    if not eps:
        return Decimal(0)
    evaluate = _excess_over_pure(eps)
    low = high = eps
    while evaluate(high)[0] < 0:
        low, high = high, high * 2
    while evaluate(low)[0] > 0:
        low = low / 2
    root = increasing_root(evaluate, low=low, high=high, start=high, digits=_WORKED - 10)
    for digits in (_KEPT, 25, 20, 15):
        mu = above(root, digits=digits)
        if evaluate(mu)[0] > Decimal(10) ** (5 - _WORKED):
            return mu
    raise ArithmeticError(f"no mu proved for epsilon = {eps}")


def _excess_over_pure(epsilon: Decimal) -> Evaluate:
    """Return a function of mu, positive where every epsilon-DP mechanism is mu-GDP."""
    with working(_WORKED + 10):
        if epsilon < 1:
            grown = expm1(epsilon, digits=_WORKED)
            log_tanh = (grown / (grown + 2)).ln()
        log_other = -(1 + (-epsilon).exp()).ln() - epsilon  # ln 1/(1 + e^epsilon)

    def evaluate(mu: Decimal) -> tuple[Decimal, Decimal]:
        with working(_WORKED + 10):
            half = mu / 2
            density = log_density(half, digits=_WORKED)
            if epsilon < 1:
                log_centre = (2 * central(half, digits=_WORKED)).ln()
                return log_centre - log_tanh, (density - log_centre).exp()
            log_tail = log_upper_tail(half, digits=_WORKED)
            return log_other - log_tail, (density - log_tail).exp() / 2

    return evaluate
