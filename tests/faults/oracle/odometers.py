"""The reading of each odometer: docs/theory.md, section 4."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import mpmath

from tests.faults.oracle.amounts import INFINITE, UNIT, Real
from tests.faults.oracle.filters import EX_POST, delta_limit

_mp: Final = mpmath.MPContext()
_mp.dps = 30
Odometer = dict[str, Any]
Policy = dict[str, Any]
_OF_EPSILONS: Final = {"advanced_2016", "advanced_2016_n"}


def _own(odometer: Odometer) -> tuple[str, ...]:
    if odometer["type"] == "basic":
        return ("loss_epsilon",)
    if odometer["type"] in _OF_EPSILONS:
        return ("loss_epsilon_squared", "loss_kl_mean")
    return ("loss_time",)


def sums(odometer: Odometer, policy: Policy) -> tuple[str, ...]:
    """Return the names of the totals that a reading uses."""
    if odometer["type"] == "combined":
        parts = [name for part in odometer["odometers"] for name in sums(part, policy)]
        return tuple(dict.fromkeys(parts))
    shown = policy["filter"] in EX_POST
    shifts = odometer["type"] != "basic"
    apart = "apart_" if shown else ""
    names = list(_own(odometer))
    if shifts and shown:
        names = [*(apart + name for name in names), "loss_ex_post"]
    if delta_limit(policy) > 0:
        names.append(apart + "loss_delta")
        if shown:
            names.append("loss_ex_post_delta")
        if shifts:
            names.append(apart + "loss_shift")
    return tuple(names)


def names(policy: Policy) -> tuple[str, ...]:
    """Return the names of all totals that a policy's odometers need."""
    found = [name for each in policy["odometers"] for name in sums(each, policy)]
    return tuple(dict.fromkeys(found))


def _real(value: str | Fraction) -> Real:
    exact = Fraction(value)
    return _mp.mpf(exact.numerator) / exact.denominator


def reading(odometer: Odometer, policy: Policy, totals: dict[str, float]) -> Real:
    """Return the bound on the loss so far in nats, from totals in units."""
    kind = odometer["type"]
    if kind == "combined":
        return min(reading(part, policy, totals) for part in odometer["odometers"])
    found = {name: totals[name] for name in sums(odometer, policy)}
    spent = sum(v for name, v in found.items() if name.endswith("_delta"))
    limit: float = delta_limit(policy)
    if kind in _OF_EPSILONS:
        limit = min(limit, math.floor(Fraction(odometer["delta"]) / 2 * UNIT))
    if spent > limit or INFINITE in found.values():
        return INFINITE
    shift = sum(
        int(v) for name, v in found.items() if name.endswith(("loss_shift", "loss_ex_post"))
    )
    own = [Fraction(int(v), UNIT) for name, v in list(found.items())[: len(_own(odometer))]]
    return _bound(odometer, own) + (_real(Fraction(shift, UNIT)) if shift else 0)


def _bound(odometer: Odometer, own: list[Fraction]) -> Real:
    kind, v = odometer["type"], _real(own[0])
    if kind == "basic":
        return v
    if kind == "advanced_2016":
        beta, log = _real(odometer["beta"]), _mp.log(2 / _real(odometer["delta"]))
        inner = 2 * (v + beta) * (1 + _mp.log1p(v / beta) / 2) * log
        return _real(own[1]) + _mp.sqrt(inner)
    if kind == "advanced_2016_n":
        return _real(own[1]) + _of_n(odometer, own[0])
    delta = _real(odometer["delta"])
    log = -_mp.log(delta)
    if kind == "linear":
        y = _real(odometer["y"])
        return _mp.sqrt(2 * y * log) / 2 + _mp.sqrt(2 * log) / (2 * _mp.sqrt(y)) * v + v / 2
    if kind == "stitched":
        v0 = _real(odometer["v0"])
        if own[0] < Fraction(odometer["v0"]):
            return INFINITE
        inner = _mp.log(_mp.log(2 * v / v0)) + _real("0.72") * _mp.log(_real("5.2") / delta)
        return _real("1.7") * _mp.sqrt(v * inner) + v / 2
    r = _real(odometer["r"])
    ratio = _mp.sqrt((v + r) / r)
    if kind == "mixture":
        return _mp.sqrt(2 * (v + r) * _mp.log(ratio / delta)) + v / 2
    if kind == "one_sided_mixture":
        return _mp.sqrt(2 * (v + r) * _mp.log(ratio / (2 * delta) + 1)) + v / 2
    assert kind == "one_sided_mixture_exact", kind
    return _root(delta, r, v) + v / 2


def _of_n(odometer: Odometer, v: Fraction) -> Real:
    n = odometer["n"]
    log = _mp.log(4 * _mp.log(n, 2) / _real(odometer["delta"]))
    if Fraction(1, n**2) <= v <= 1:
        return 2 * _mp.sqrt(_real(v) * (1 + _mp.log(3) / 2) * log)
    rest = _real(v + Fraction(1, n**2))
    return _mp.sqrt(2 * rest * (1 + _mp.log1p(_real(n**2 * v)) / 2) * log)


def _root(delta: Real, r: Real, v: Real) -> Real:
    moved = v + r
    goal = -_mp.log(delta) - _mp.log(2 * _mp.sqrt(r / moved))

    def value(s: Real) -> Real:
        return s**2 / (2 * moved) + _mp.log(_mp.ncdf(s / _mp.sqrt(moved))) - goal

    low, high = _mp.mpf(0), 60 * _mp.sqrt(moved)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if value(middle) < 0 else (low, middle)
    return high
