"""Basic composition: epsilons add up."""

from __future__ import annotations

from fractions import Fraction

from research.comparators.runs import Runs


def basic_epsilon(runs: Runs) -> Fraction:
    """Return the sum of epsilon, exactly, in nats. Source: Rogers 2016 Thm 3.6."""
    return sum((Fraction(epsilon) * count for epsilon, count in runs), Fraction(0))
