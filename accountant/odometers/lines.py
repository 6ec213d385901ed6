"""Several lines in intrinsic time at once: their minimum, and their mixture."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from accountant.amounts import parse, precise
from accountant.errors import RequestInvalid
from accountant.odometers.base import (
    ULPS_UP,
    Boundary,
    checked_delta,
    parameter,
)

_CLOSE: Final = 1e-12
_STEPS: Final = 100
# Relative error of each term of a sum, after a few float operations.
_ERROR: Final = 4e-15


def lines_min(*, delta: str, slopes: tuple[str, ...], weights: tuple[str, ...]) -> Boundary:
    """Return U(V) = min_k (lambda_k V/2 + ln(1/(w_k delta'))/lambda_k) + V/2, rounded up.

    Args:
        slopes: lambda_k > 0.
        weights: w_k > 0, adding up to at most 1.
    Raises: RequestInvalid: a parameter breaks its rule.
    Source: docs/theory.md P3, first item, and a union bound.
    """
    lines = _lines(delta, slopes, weights)

    def reading(v: float) -> float:
        return (_least(lines, v) + v / 2) * ULPS_UP

    return reading


def discrete_mixture(*, delta: str, slopes: tuple[str, ...], weights: tuple[str, ...]) -> Boundary:
    """Return U(V) = s + V/2, the root s of sum_k w_k e^(lambda_k s - lambda_k^2 V/2) = 1/delta'.

    Rounded up; at most `lines_min` apart from rounding. Arguments and errors as there.
    Source: docs/theory.md P3: a mean over slopes of the supermartingales M(lambda).
    """
    lines = _lines(delta, slopes, weights)

    def reading(v: float) -> float:
        if v == math.inf:
            return v
        return (_mixture_root(lines, v) + v / 2) * ULPS_UP

    return reading


def _lines(
    delta: str, slopes: tuple[str, ...], weights: tuple[str, ...]
) -> tuple[tuple[float, float], ...]:
    """Return (lambda_k, ln(1/(w_k delta')) rounded up) for each line."""
    if not slopes or len(slopes) != len(weights):
        raise RequestInvalid("weights", "must be as many as slopes, at least one", len(weights))
    parts = [parse(weight, field="weights") for weight in weights]
    if min(parts) <= 0 or sum(map(Fraction, parts)) > 1:
        rule = "must be greater than 0 and add up to at most 1"
        raise RequestInvalid("weights", rule, ", ".join(weights))
    tail = checked_delta(delta)
    with precise():
        logs = [float(-(part * tail).ln()) * ULPS_UP for part in parts]
    return tuple((parameter(s, "slopes"), log) for s, log in zip(slopes, logs, strict=True))


def _least(lines: tuple[tuple[float, float], ...], v: float) -> float:
    return min(slope * v / 2 + log / slope for slope, log in lines) * ULPS_UP


def _mixture_root(lines: tuple[tuple[float, float], ...], v: float) -> float:
    """Return nearly the least s with sum_k e^(lambda_k s - lambda_k^2 V/2 - log_k) >= 1."""
    s = start = _least(lines, v)  # one of the terms alone is 1 here
    # The logarithm of the sum is increasing and convex: Newton's steps from above the root stay
    # above it.
    for _ in range(_STEPS):
        grown = [slope * (s - slope * v / 2) - log for slope, log in lines]
        maximum = max(grown)
        terms = [math.exp(g - maximum) for g in grown]
        total = math.fsum(terms)
        slope = math.fsum(line[0] * term for line, term in zip(lines, terms, strict=True)) / total
        step = (maximum + math.log(total)) / slope
        if step <= _CLOSE * s:
            break
        s -= step
    # Doubling the margin reaches a proof also where delta' is nearly 1 and V nearly 0: there s
    # is so small that it hardly changes the sum.
    for doublings in range(_STEPS):
        enough = s * (1 + _ERROR * 2.0**doublings)
        if enough >= start:
            break
        if _certain(lines, v, enough):
            return enough
    return start


def _certain(lines: tuple[tuple[float, float], ...], v: float, s: float) -> bool:
    """Tell whether the sum at s is at least 1 for every possible error of its evaluation."""
    minimum = []
    for slope, log in lines:
        grown, taken = slope * s, slope * slope * v / 2
        minimum.append(grown - taken - log - _ERROR * (grown + taken + log))
    maximum = max(minimum)
    total = math.fsum(math.exp(each - maximum) for each in minimum) * (1 - _ERROR)
    return maximum + math.log(total) >= 0
