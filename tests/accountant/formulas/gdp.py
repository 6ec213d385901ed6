"""From mu-GDP to (epsilon, delta)-DP in the ordinary scale, for comparison with the product's."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from accountant.amounts import above, below
from accountant.conversions.gdp import gdp_log_delta, profile
from accountant.conversions.outward import (
    Real,
    decimal_down,
    decimal_up,
    log_probability,
    working,
)
from accountant.conversions.roots import increasing_root

_WORKED: Final = 50
_KEPT: Final = 30


def gdp_delta(*, mu: Real, epsilon: Real) -> Decimal:
    """Return delta_mu(epsilon), rounded up; 0 only for mu = 0.

    Source: as `gdp_log_delta`.
    """
    if not mu:
        return Decimal(0)
    log = gdp_log_delta(mu=mu, epsilon=epsilon)
    with working(_WORKED):
        value = above(log.exp(), digits=_KEPT)
        return min(max(value, Decimal("1e-999999")), Decimal(1))


def gdp_epsilon(*, mu: Real, delta: Real) -> Decimal:
    """Return the least epsilon >= 0 with delta_mu(epsilon) <= delta, rounded up.

    Args:
        mu: >= 0.
        delta: 0 < delta < 1.
    Raises: ArithmeticError: delta is out of range, or no epsilon found is proved large enough.
    Source: as `gdp_log_delta`. The result is proved by evaluating delta there.
    """
    m, log_delta = (
        decimal_up(mu),
        below(log_probability(decimal_down(delta), digits=_WORKED), digits=_KEPT + 5),
    )
    if not m or gdp_log_delta(mu=m, epsilon=Decimal(0)) <= log_delta:
        return Decimal(0)
    high = m * m / 2 + m
    while gdp_log_delta(mu=m, epsilon=high) > log_delta:
        high *= 2

    def evaluate(epsilon: Decimal) -> tuple[Decimal, Decimal]:
        found = profile(mu=m, epsilon=epsilon, digits=_WORKED)
        slope = (found.log_by_epsilon - found.log_delta).exp()
        return log_delta - found.log_delta, slope

    kept = _WORKED - 15
    try:
        root = increasing_root(evaluate, low=Decimal(0), high=high, start=high / 2, digits=kept)
    except ArithmeticError:  # these digits cannot distinguish the root from 0
        root = Decimal(0)
    # Where delta is nearly delta_mu(0), the root is nearly 0 and delta hardly depends on it. The
    # rounding of delta then exceeds every step relative to the root: absolute steps follow.
    near_zero = (root + Decimal(10) ** -digits for digits in range(_KEPT, 14, -1))
    for epsilon in (*(above(root, digits=digits) for digits in (_KEPT, 25, 20, 15)), *near_zero):
        if gdp_log_delta(mu=m, epsilon=epsilon) <= log_delta:
            return epsilon
    raise ArithmeticError(f"no epsilon proved for mu = {m}, delta = {delta}")
