"""The proved cost of a pure mechanism under the residue filter, computed in microseconds.

Write s = m^2 for the state, h = epsilon^2 and c = s - m'^2 for the cost. Multiplying P6's
equation by e^(-epsilon/2) turns its differences into integrals of positive functions,

    I(m', infinity; e^(-h/2u^2)) = cosh(epsilon/2) I(m, infinity; 1),

where I(a, b; f) is the integral of f(u) e^(-u^2/8) over [a, b]. After an expansion of the
exponential, every term except a finite sum of each order cancels (docs/theory.md P10):

    cosh(epsilon/2) I(m', m; e^((s - c)/8)) = m' T(x),   x = h/(2 (s - c)),
    T(x) = sum over k >= 1 of (-1)^(k+1) x^k/k! P_k,     P_1 = 1,
                                        P_k = (1 - (s - c)/4 P_{k-1})/(2k - 1).

Both sides are about x for every epsilon, so a cost of 1e-24 out of 0.04 keeps all its digits.
The left side minus the right one has the sign of c - root: where it exceeds the error of its
evaluation, c is *proved* to be enough. The code uses only + - * / and the square root of
doubles, which IEEE 754 rounds alike on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import sqrt
from typing import Final

from accountant.amounts import UNIT, precise, units_up
from accountant.conversions.outward import working
from accountant.conversions.residue import has_residue, residue_after_pure

# Doubles serve for epsilon up to 2 and x up to 3: for all states except those within 0.3 %
# above the smallest that admits the mechanism. The terms of T are at most four times their
# sum and at most 40 of them count, so both sides together have an error of less than 150
# roundings of 2^-53 each: 1.7e-14.
MAX_EPSILON_IN_DOUBLES: Final = 2
_MAX_X: Final = 3.0
_ERROR: Final = 4e-14
_AIM: Final = 6e-14
_LOOSEST: Final = 1e-13
_NEGLIGIBLE: Final = 1e-17
_MAX_ROUNDS: Final = 16
# Every mechanism with a larger h/s is refused (above 2/pi for small m, 0.72 at epsilon = 2).
_MAX_Y: Final = 0.73
# Relative distance to the refusal within which decimals decide instead of doubles.
_NEAR: Final = 1e-13
_TWO_BY_ROOT_PI: Final = 1.1283791670955126
# Costs keep 16 digits, so that records stay short; this rounds them up by at most 1e-15 of them.
_KEPT_DIGITS: Final = 16
_BLOCKS: Final = 10**6
_MIN_BLOCK: Final = 8


@dataclass(frozen=True, slots=True)
class PureStep:
    """The constants of one epsilon.

    Attributes:
        epsilon: exact, a multiple of 1e-40.
        square: h of the epsilon rounded up to a double, 0 where doubles do not serve.
        grown: cosh(epsilon/2), to nearest.
        variation: tanh(epsilon/2), to nearest: the total variation of RR_epsilon.
        far: the limit of the cost as m grows, 8 ln cosh(epsilon/2): part of the start value.
    """

    epsilon: Decimal
    square: float = 0.0
    grown: float = 0.0
    variation: float = 0.0
    far: float = 0.0


@lru_cache(maxsize=65_536)
def pure_step(epsilon: int) -> PureStep:
    """Return the constants of an epsilon in units of 1e-40, > 0.

    A mechanism is also DP for every larger epsilon, so epsilon may be rounded up.
    """
    with precise():
        exact = Decimal(epsilon) / UNIT
        if exact > MAX_EPSILON_IN_DOUBLES:
            return PureStep(exact)
        rounded = math.nextafter(epsilon / UNIT, math.inf)
        half = (Decimal(rounded) / 2).exp()
        cosh, sinh = (half + 1 / half) / 2, (half - 1 / half) / 2
        square = rounded * rounded
        # The logarithm of about 1 + h/8 loses as many digits as h has zeros after the point.
        far = float(8 * cosh.ln()) if square > 1e-24 else square
        return PureStep(exact, square, float(cosh), float(sinh / cosh), far)


def admits(state: int, step: PureStep) -> bool:
    """Tell whether the mechanism may run: Phi(m/2) >= e^epsilon/(1 + e^epsilon).

    Decimals decide where doubles cannot; where decimals cannot either, the answer is no.

    Args:
        state: m^2, in units of 1e-40.
    Source: docs/theory.md section 3, gdp_residue; P6.
    """
    if step.square:
        s = state / UNIT
        if step.square > _MAX_Y * s:
            return False
        # Compare 2 Phi(m/2) - 1 = erf(sqrt(s/8)) with tanh(epsilon/2). For m >= 3 the first is
        # above 0.86, while tanh(1) is 0.76.
        if s >= 9:
            return True
        variation = _erf(s / 8)
        if abs(variation - step.variation) > _NEAR * variation:
            return variation > step.variation
    return has_residue(mu=_root_down(state), epsilon=step.epsilon)


def pure_cost(state: int, step: PureStep) -> int | None:
    """Return the amount that a pure mechanism takes off the state, rounded up; None if refused.

    At most 1e-12 relatively above the root, never below it. The exact cost falls as the state
    grows (docs/theory.md P10), so rounding the state down only raises the cost.

    Args:
        state: m^2, in units of 1e-40.
    Source: docs/theory.md section 3, gdp_residue; P6; P10.
    """
    if step.square:
        cost = _by_doubles(math.nextafter(state / UNIT, 0.0), step)
        if cost is not None:
            units = int(cost * UNIT) + 1
            shorter: int = 10 ** max(0, len(str(units)) - _KEPT_DIGITS)
            return -(-units // shorter) * shorter
    return _exact_cost(state, step) if admits(state, step) else None


def _by_doubles(s: float, step: PureStep) -> float | None:
    """Return a cost that is proved to be enough, None where doubles cannot prove one.

    Halley's method in c, aimed a little above the root. With v = s - c, the derivative of the
    difference of both sides is m' e^-x/(2v). At the root, the derivative of that difference
    times e^(c/8) has the logarithmic derivative 1/8 + (1/2 - x)/v.
    """
    h = step.square
    if h > _MAX_Y * s:
        return None
    c = _start(h / s, h, step.far) * (1 + _AIM)
    for _ in range(_MAX_ROUNDS):
        left = s - c
        if left <= 0 or h > 2 * _MAX_X * left:
            return None
        over, slope = excess(c, s, step)
        if _ERROR <= over <= _LOOSEST:
            return c
        move = (_AIM - over) / slope
        c += move / (1 + move * (0.0625 + (0.25 - h / (4 * left)) / left))
    return None


def excess(cost: float, s: float, step: PureStep) -> tuple[float, float]:
    """Return the relative excess of the equation's left side, and about its derivative by cost.

    The excess is above 0 for costs above the root; its error is below 1.7e-14 where epsilon <= 2
    and x <= 3.
    """
    left = s - cost
    root, x = sqrt(left), step.square / (left + left)
    right, decay = _series(x, left / 4)
    over = step.grown * _integral(cost / (sqrt(s) + root), root) / right - 1
    return over, decay / (right * (left + left))


def _start(y: float, h: float, far: float) -> float:
    """Return about the cost, by its double power series in y = h/s and h.

    It is only a start value, so its coefficients need no proof: 1/6, 2/15, ..., 4/27 for the
    powers of y (the limit m -> 0), then -1/90, ... for those of h y. One term stands for all
    higher powers of y.
    """
    alone = y * (0.132936504 + y * (0.148148148 + y * (0.176612914 + y * 0.221087663)))
    alone = y * (0.16666666666666666 + y * (0.13333333333333333 + alone))
    both = y * (0.011111111 + y * (0.013591269 + y * (0.018254145 + y * 0.025584)))
    cube = y * y * y  # not a power function: libraries differ in its last digit
    return far + h * (alone + 0.3 * cube * cube * y / (1 - 1.3 * y) - h * both)


def _series(x: float, quarter: float) -> tuple[float, float]:
    """Return T(x) and e^-x. Each term of T follows from its predecessor and from x^k/k!."""
    power = term = total = x
    decay = 1 - x
    k = 1
    minimum = _NEGLIGIBLE * x
    while abs(power) + (1 + quarter) * abs(term) > minimum:
        k += 1
        term = -x * (power - quarter * term) / (k * (k + k - 1))
        power *= -x / k
        decay -= power
        total += term
    return total, decay


def _integral(d: float, root: float) -> float:
    """Return the integral of e^(-(u^2 - m'^2)/8) over [m', m' + d], divided by m' = root.

    With u = m' + d t the exponent is -p t - q t^2/2; its power series follows from
    f' = -(p + q t) f.
    """
    p, q = root * d / 4, d * d / 4
    before, coefficient, total, n = 0.0, 1.0, 1.0, 1
    while abs(coefficient) + abs(before) > _NEGLIGIBLE:
        before, coefficient = coefficient, -(p * coefficient + q * before) / n
        n += 1
        total += coefficient / n
    return total * d / root


def _erf(square: float) -> float:
    """Return erf(sqrt(square)) to 1e-15 by its series, for a square below 2."""
    power = total = 1.0
    k = 0
    while abs(power) > _NEGLIGIBLE:
        k += 1
        power *= -square / k
        total += power / (k + k + 1)
    return _TWO_BY_ROOT_PI * sqrt(square) * total


@lru_cache(maxsize=16_384)
def _exact_cost(state: int, step: PureStep) -> int | None:
    m = _root_down(state)
    with precise():
        zeros = max(0, -(step.epsilon / m).adjusted())
    left = residue_after_pure(mu=m, epsilon=step.epsilon, digits=20 + 2 * zeros)
    if left is None:
        return None
    with working(150):
        return units_up(Decimal(state) / UNIT - left * left)


def _root_down(state: int) -> Decimal:
    with precise() as context:
        return context.next_minus((Decimal(state) / UNIT).sqrt()) if state else Decimal(0)


def run_repeatedly(
    state: int,
    cost: Callable[[int], int | None],
    times: int,
    *,
    singly: int,
    loose: int = 10**12,
) -> tuple[int, int]:
    """Run one claim again and again; return the state left and the number of runs.

    Args:
        state: m^2, in units of 1e-40.
        cost: of one run at a state, > 0; None if it is refused. It is at least a function that
            falls as the state grows, and relatively at most 1/`loose` above that function.
        times: the most runs.
        singly: how many runs to take one by one. Later runs go in blocks, within which the cost
            changes by about 1e-6 and at most by 2e-6. Each run of a block is charged an upper
            bound on the cost of its last run, so one by one they would leave no less.
    Source: docs/theory.md P10 (the cost falls as the state grows).
    """
    done = 0
    while done < times:
        each = cost(state)
        if each is None:
            break
        # A cost grows by about h/(6 s) of itself as the state falls by its own size.
        many = 1
        if done >= singly:
            many = min(times - done, state // (2 * each), 6 * state**2 // (_BLOCKS * each**2))
        if many >= _MIN_BLOCK:
            low = state - many * (each + each // (_BLOCKS // 2))
            last = cost(low)
            if last is not None:
                last += last // loose + 1
                if many * last <= state - low:
                    state, done = state - many * last, done + many
                    continue
        state, done = state - each, done + 1
    return state, done
