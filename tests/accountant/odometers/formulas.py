"""Every odometer as the theory page displays it, by mpmath: not written from our code."""

from __future__ import annotations

from typing import Any

import mpmath

from accountant.odometers import Odometer
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.basic import Basic
from accountant.odometers.combined import Combined
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from tests.accountant import exact

Real = Any  # mpmath.mpf, which has no types
HALF = mpmath.mpf(1) / 2


def bound(odometer: Odometer, v: Real, mean: Real) -> Real:
    """Return U where each sum but those of deltas is V, and that of means is `mean`."""
    match odometer:
        case Basic():
            return v
        case Combined():
            return min(bound(part, v, mean) for part in odometer.odometers)
        case Advanced2016():
            beta, log = exact.real(odometer.beta), mpmath.log(2 / exact.real(odometer.delta))
            return mean + mpmath.sqrt(2 * (v + beta) * (1 + mpmath.log(v / beta + 1) / 2) * log)
        case Advanced2016N():
            return mean + advanced_2016_n(odometer, v)
        case Linear():
            return linear(odometer, v) + v / 2
        case Mixture():
            r, delta = exact.real(odometer.r), exact.real(odometer.delta)
            inner = mpmath.log(mpmath.sqrt((v + r) / r) / delta)
            return mpmath.sqrt(2 * (v + r) * inner) + v / 2
        case OneSidedMixture():
            return one_sided(odometer.delta, odometer.r, v, plus=mpmath.mpf(1))
        case OneSidedMixtureExact():
            return one_sided_root(exact.real(odometer.delta), exact.real(odometer.r), v) + v / 2
        case Stitched():
            return stitched(exact.real(odometer.delta), exact.real(odometer.v0), v)
    raise AssertionError(odometer)


def linear(odometer: Linear, v: Real) -> Real:
    y, log = exact.real(odometer.y), -mpmath.log(exact.real(odometer.delta))
    return mpmath.sqrt(2 * y * log) / 2 + mpmath.sqrt(2 * log) / (2 * mpmath.sqrt(y)) * v


def advanced_2016_n(odometer: Advanced2016N, v: Real) -> Real:
    n = mpmath.mpf(odometer.n)
    log = mpmath.log(4 * mpmath.log(n, 2) / exact.real(odometer.delta))
    if 1 / n**2 <= v <= 1:
        return 2 * mpmath.sqrt(v * (1 + mpmath.log(mpmath.sqrt(3))) * log)
    return mpmath.sqrt(2 * (1 / n**2 + v) * (1 + mpmath.log(1 + n**2 * v) / 2) * log)


def one_sided(delta: str, r: str, v: Real, *, plus: Real) -> Real:
    mixed = exact.real(r)
    ratio = mpmath.sqrt((v + mixed) / mixed)
    inner = mpmath.log(ratio / (2 * exact.real(delta)) + plus)
    return mpmath.sqrt(2 * (v + mixed) * inner) + v / 2


def one_sided_root(delta: Real, r: Real, v: Real) -> Real:
    """Return s with 2 sqrt(r/(V+r)) e^(s^2/(2(V+r))) Phi(s/sqrt(V+r)) = 1/delta, by bisection."""
    moved = v + r

    def short(s: Real) -> bool:
        left = 2 * mpmath.sqrt(r / moved) * mpmath.exp(s**2 / (2 * moved))
        return bool(left * mpmath.ncdf(s / mpmath.sqrt(moved)) < 1 / delta)

    return bisect(short, 60 * mpmath.sqrt(moved))


def bisect(short: Any, high: Real, *, steps: int = 100) -> Real:
    """Return where `short` turns from true to false within [0, high]."""
    low = mpmath.mpf(0)
    assert not short(high)
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return low


def stitched(delta: Real, v0: Real, v: Real) -> Real:
    if v < v0:
        return mpmath.inf
    inner = mpmath.log(mpmath.log(2 * v / v0))
    inner += exact.real("0.72") * mpmath.log(exact.real("5.2") / delta)
    return exact.real("1.7") * mpmath.sqrt(v * inner) + v / 2


def stitched_exact(delta: Real, v0: Real, v: Real) -> Real:
    maximum = max(v, v0)
    power = exact.real("1.4")
    kappa = (mpmath.root(2, 4) + 1 / mpmath.root(2, 4)) / mpmath.sqrt(2)
    inner = power * mpmath.log(mpmath.log(2 * maximum / v0)) + mpmath.log(mpmath.zeta(power))
    inner += -power * mpmath.log(mpmath.log(2)) - mpmath.log(delta)
    return kappa * mpmath.sqrt(maximum * inner) + v / 2


def lines_min(delta: Real, lines: list[tuple[Real, Real]], v: Real) -> Real:
    return v / 2 + min(
        slope * v / 2 + mpmath.log(1 / (weight * delta)) / slope for slope, weight in lines
    )


def discrete_mixture(delta: Real, lines: list[tuple[Real, Real]], v: Real) -> Real:
    def short(s: Real) -> bool:
        terms = [w * mpmath.exp(slope * s - slope**2 * v / 2) for slope, w in lines]
        return bool(mpmath.fsum(terms) < 1 / delta)

    high = lines_min(delta, lines, v) - v / 2
    return v / 2 + bisect(short, high * (1 + mpmath.mpf(10) ** -60))
