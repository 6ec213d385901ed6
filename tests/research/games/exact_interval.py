"""What a simulation says about a probability: exact binomial bounds (Clopper and Pearson)."""

from __future__ import annotations

from scipy.stats import beta

MISS = 1e-9
"""Probability that a two-sided interval misses: with fixed seeds no test is ever flaky."""


def interval(count: int, runs: int) -> tuple[float, float]:
    """Return bounds on a probability that was met `count` times in `runs` independent runs."""
    low = float(beta.ppf(MISS / 2, count, runs - count + 1)) if count else 0.0
    high = float(beta.isf(MISS / 2, count + 1, runs - count)) if count < runs else 1.0
    return low, high
