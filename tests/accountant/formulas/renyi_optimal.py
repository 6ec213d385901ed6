"""The most Renyi divergence that (epsilon, delta)-DP leaves room for (Asoodeh et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, getcontext
from typing import Final

from accountant.conversions.renyi_arithmetic import (
    Real,
    cancelled_digits,
    down,
    exact_or_down,
    magnitude,
    working,
)
from accountant.conversions.renyi_dp import budget_cks

_HALVINGS: Final = 60  # of the minimiser's logarithm, before Newton's steps
_STEPS: Final = 20
_LOST: Final = 8  # digits of a term that its few operations may spoil


def budget_optimal(order: Real, *, epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the largest D_alpha that implies (epsilon, delta)-DP, rounded down.

    The least D_alpha of two Bernoulli laws (p, q) with p - e^epsilon q = delta:

        min over p in (delta, 1), q = (p - delta) e^-epsilon, of ln F / (alpha - 1),
        F = p^alpha q^(1-alpha) + (1-p)^alpha (1-q)^(1-alpha).

    F is convex along this line (a sum of perspectives of x^alpha), so it lies above its
    tangent at *any* u = p - delta: F >= F(u) - |F'(u)| (1 - delta) for all of them. That is
    what is returned: an inexact minimiser makes the result smaller, never wrong.

    Args:
        order: alpha > 1.
        epsilon: in nats, > 0.
        delta: 0 < delta < 1.
    Source: Asoodeh et al. 2020; the tangent, docs/theory.md section 1.
    """
    with working():
        alpha = exact_or_down(order)
        # F - 1 may be as small as about (alpha-1) delta^2, and u about (alpha-1) delta.
        guard = 3 * (cancelled_digits(delta) + cancelled_digits(alpha - 1)) + 2 * (
            cancelled_digits(epsilon) + max(0, magnitude(alpha))
        )
        guard += cancelled_digits(1 - delta) + cancelled_digits(1 - alpha * delta)
    with working(guard + 20):
        if alpha * delta >= 1:
            # F decreases all the way to p = 1, where it is q^(1-alpha).
            log = -(1 - delta).ln()
            return down(epsilon + log, epsilon, log)
        line = _Line(alpha, (-epsilon).exp(), delta)
        minimum = line.minimum(line.minimiser())
        certified = down(minimum.ln() / (alpha - 1)) if minimum > 1 else Decimal(0)
    # The budget of c_alpha is valid as well.
    return max(certified, budget_cks(alpha, epsilon=epsilon, delta=delta))


@dataclass(frozen=True, slots=True)
class _Line:
    """F along u = p - delta in (0, 1 - delta), with q = shrunk u and shrunk = e^-epsilon.

    With r = p/q and s = (1-p)/(1-q), F = p r^(a-1) + (1-p) s^(a-1) and F' = f(r) - f(s),
    f(x) = x^(a-1) (a - (a-1) shrunk x).
    """

    alpha: Decimal
    shrunk: Decimal
    delta: Decimal

    def minimum(self, u: Decimal) -> Decimal:
        """Return a lower bound on F everywhere, from its tangent at u, rounded down."""
        p, r, s = self._ratios(u)
        first, second = self._power(r), self._power(s)
        spoiled = Decimal(10) ** (_LOST - getcontext().prec) * self.alpha
        value = p * first + (1 - p) * second
        steep = self._terms(r, s)
        slope = abs(steep[0] - steep[1]) + spoiled * (first + abs(steep[0]) + abs(steep[1]))
        return value * (1 - spoiled) - slope * (1 - self.delta)

    def minimiser(self) -> Decimal:
        """Return u where F' is about 0, or as near to it as the digits go."""
        # f(s) > 0 since s < 1, and f(r) <= 0 for u <= (alpha-1) delta.
        low, high = (self.alpha - 1) * self.delta, 1 - self.delta
        for _ in range(_HALVINGS):
            middle = (low * high).sqrt()
            low, high = (middle, high) if self._slope(middle) < 0 else (low, middle)
        u = high if high < 1 - self.delta else low
        for _ in range(_STEPS):
            # The root can lie at a 1e-32nd above `low`: a step beyond ends there, and goes on.
            moved = min(max(u - self._slope(u) / self._curvature(u), low), high)
            if moved == u:
                break
            u = moved
        return u

    def _slope(self, u: Decimal) -> Decimal:
        _, r, s = self._ratios(u)
        first, second = self._terms(r, s)
        return first - second

    def _curvature(self, u: Decimal) -> Decimal:
        p, r, s = self._ratios(u)
        q, k = self.shrunk * u, self.shrunk
        steep_r = -self.delta / (k * u * u)
        steep_s = ((1 - p) * k - (1 - q)) / (1 - q) ** 2
        scale = self.alpha * (self.alpha - 1)
        first = self._power(r) / r * (1 - k * r) * steep_r
        second = self._power(s) / s * (1 - k * s) * steep_s
        return scale * (first - second)

    def _ratios(self, u: Decimal) -> tuple[Decimal, Decimal, Decimal]:
        p, q = self.delta + u, self.shrunk * u
        return p, p / q, (1 - p) / (1 - q)

    def _terms(self, r: Decimal, s: Decimal) -> tuple[Decimal, Decimal]:
        less = (self.alpha - 1) * self.shrunk
        return (
            self._power(r) * (self.alpha - less * r),
            self._power(s) * (self.alpha - less * s),
        )

    def _power(self, x: Decimal) -> Decimal:
        return ((self.alpha - 1) * x.ln()).exp()
