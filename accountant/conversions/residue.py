"""The residue of a Gaussian budget after a pure mechanism, as an exact root.

In the state m, all later answers together are no easier to distinguish than N(0, 1) from
N(m, 1). An epsilon-DP mechanism leads to the m' at which both sides have the same total
variation (docs/theory.md P6),

    delta_{m'}(epsilon) = (1 + e^epsilon) Phi(m/2) - e^epsilon,

and it may not run where the right side is negative.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from accountant.amounts import below
from accountant.conversions.gdp import profile
from accountant.conversions.normal import central, log_upper_tail
from accountant.conversions.outward import Real, decimal_down, decimal_up, expm1, log1p, working
from accountant.conversions.roots import increasing_root

_HALF: Final = Decimal("0.5")
_MAX_DIGITS: Final = 600


def residue_after_pure(*, mu: Real, epsilon: Real, digits: int = 30) -> Decimal | None:
    """Return m' after an epsilon-DP mechanism from the state m = mu, rounded down.

    Args:
        mu: the state, >= 0.
        epsilon: in nats, >= 0.
        digits: of the result; its distance from the root is about 10^-digits of mu.
    Returns: None where the mechanism may not run: Phi(mu/2) < e^epsilon/(1 + e^epsilon).
    Raises: ArithmeticError: no m' found is proved to be at most the root.
    Source: docs/theory.md section 3, gdp_residue, and P6. The result is proved by evaluating
    delta there.
    """
    m, eps = decimal_down(mu), decimal_up(epsilon)
    if not eps:
        return m
    if not m:
        return None
    worked = digits + 10
    log_target, log_rest = _target(m, eps, digits=worked)
    if log_target is None:
        return None
    near_one = log_target > Decimal("-0.7")

    def evaluate(left: Decimal) -> tuple[Decimal, Decimal]:
        found = profile(mu=left, epsilon=eps, digits=worked)
        with working(worked + 10):
            if near_one:  # delta has too few digits here; 1 - delta has enough
                return log_rest - found.log_rest, (found.log_by_mu - found.log_rest).exp()
            return found.log_delta - log_target, (found.log_by_mu - found.log_delta).exp()

    with working(worked):
        square = m * m - eps * eps
        start = square.sqrt() if square > 0 else m / 2
        low = start
        while evaluate(low)[0] > 0:
            low /= 2
    root = increasing_root(evaluate, low=low, high=m, start=start, digits=worked - 2)
    for precision in (digits, digits * 3 // 4, digits // 2):
        left = below(root, digits=precision)
        if evaluate(left)[0] < -(Decimal(10) ** (5 - worked)):
            return left
    raise ArithmeticError(f"no residue proved for mu = {m}, epsilon = {eps}")


def has_residue(*, mu: Real, epsilon: Real) -> bool:
    """Tell whether an epsilon-DP mechanism provably may run from the state mu.

    Args, Source: as `residue_after_pure`.
    """
    m, eps = decimal_down(mu), decimal_up(epsilon)
    return not eps or (m > 0 and _target(m, eps, digits=20)[0] is not None)


def _target(m: Decimal, epsilon: Decimal, *, digits: int) -> tuple[Decimal | None, Decimal]:
    """Return ln of the right side T (None where it is below 0) and ln(1 - T).

    T = ((1 + e^epsilon) (2 Phi(m/2) - 1) - (e^epsilon - 1))/2, which does not cancel where m is
    small, as the plain form does; 1 - T = (1 + e^epsilon)(1 - Phi(m/2)).
    """
    more = digits
    while True:
        with working(more + 10):
            grown = expm1(epsilon, digits=more)
            half = m / 2
            first = (2 + grown) * central(half, digits=more) * 2
            target = (first - grown) / 2
            slack = first.scaleb(2 - more)
            log_rest = (2 + grown).ln() + log_upper_tail(half, digits=more)
            if target < -slack:
                return None, log_rest
            if target > slack.scaleb(digits):
                if target > _HALF:
                    return log1p(-log_rest.exp(), digits=digits), log_rest
                return target.ln(), log1p(-target, digits=digits)
        more *= 2
        if more > _MAX_DIGITS:
            return None, log_rest  # 0 to hundreds of digits: a refusal is safe
