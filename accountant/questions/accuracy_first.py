"""Sessions that a question may run: one answer, shown with less and less noise.

Each level has half the variance or scale of the one before. Levels are multiples of the finest by
powers of two, so each is an exact decimal, and a claim can name it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from msgspec import UNSET

from accountant.amounts import LARGEST, UNIT, budget_down, cost_up, format_units, units_up
from accountant.claims import Brownian, ExPost
from accountant.errors import RequestInvalid
from accountant.questions.error_at_confidence import largest_refined_sigma, least_laplace_epsilon
from accountant.questions.noise import Noise
from accountant.questions.sensitivity import VectorStatistic

MAX_LEVELS: Final = 64
DEFAULT_HALVINGS: Final = 10
"""From the first level to the finest, where the analyst names no first one: 11 levels."""
MAX_SHOWN: Final = 150_000
"""Numbers of all levels together. The longest take 100 bytes, so an answer has less than the 16 MiB
that a record of answers may have on Kafka. 10,000 groups with 11 levels are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSession:
    """The levels of a statistic's session, and its claim.

    Attributes:
        claim: its numbers are in units of `unit`.
        first, finest: variances in squared units of the answer, or scales in its units; the first
            is the finest times a power of two.
        unit: 1, or the least power of ten in which no number of the claim reaches 1e9.
    """

    claim: Brownian | ExPost
    first: Fraction
    finest: Fraction
    unit: int


def gaussian_refinement(statistic: VectorStatistic, noise: Noise) -> DerivedSession | None:
    """Return a Brownian session whose finest answer has the noise wanted.

    The variance is rounded up where it is to cost at most rho, and down where the noise is to be
    at most sigma, or within an error. The claim's sensitivity is rounded up.

    Returns: None if no noise keeps the error.
    Raises: RequestInvalid: the first level does not fit the finest one.
    """
    wanted = _variance(statistic, noise)
    if wanted is None:
        return None
    first = None if noise.first is UNSET else Fraction(noise.first) ** 2
    halvings = _halvings(wanted, first, noise, statistic.cells)

    def numbers(unit: int) -> tuple[int, int]:
        sensitivity = sqrt_up(statistic.l2_squared / unit**2)
        if noise.form == "rho":
            # Of the sensitivity that is charged, so that the claim costs at most rho.
            square = Fraction(sensitivity, UNIT) ** 2
            return sensitivity, cost_up(square / (2 * Fraction(noise.amount)))
        return sensitivity, budget_down(wanted / unit**2)

    unit, sensitivity, finest = _in_range(numbers, halvings)
    claim = Brownian(
        variance=format_units(finest),
        sensitivity=format_units(sensitivity),
        first=format_units(finest << halvings),
    )
    least = Fraction(finest, UNIT) * unit**2
    return DerivedSession(claim=claim, first=least * 2**halvings, finest=least, unit=unit)


def laplace_reduction(statistic: VectorStatistic, noise: Noise) -> DerivedSession | None:
    """Return a session of Laplace noise reduction whose finest answer has the noise wanted.

    The scale is rounded up where it is to cost at most epsilon, down where it is to keep an error.
    The claim's sensitivity and epsilon are rounded up.

    Returns: None if no noise keeps the error, or none has a claim.
    Raises: RequestInvalid: the first level does not fit the finest one.
    """
    epsilon = _epsilon(statistic, noise)
    if epsilon is None:
        return None
    wanted = statistic.l1 / epsilon
    first = None if noise.first is UNSET else Fraction(noise.first)
    halvings = _halvings(wanted, first, noise, statistic.cells)
    rounded = cost_up if noise.form == "epsilon" else budget_down

    def numbers(unit: int) -> tuple[int, int]:
        sensitivity = units_up(statistic.l1 / unit)
        if noise.form == "epsilon":
            return sensitivity, rounded(Fraction(sensitivity, UNIT) / epsilon)
        return sensitivity, rounded(wanted / unit)

    unit, sensitivity, finest = _in_range(numbers, halvings)
    if not finest:
        return None
    claim = ExPost(
        epsilon=format_units(units_up(Fraction(sensitivity, finest))),
        sensitivity=format_units(sensitivity),
        first=format_units(finest << halvings),
        least=format_units(finest),
    )
    least = Fraction(finest, UNIT) * unit
    return DerivedSession(claim=claim, first=least * 2**halvings, finest=least, unit=unit)


def sqrt_up(value: Fraction) -> int:
    """Return a square root in units of 1e-40, rounded up."""
    square = math.ceil(value * UNIT**2)
    root = math.isqrt(square)
    return root if root * root == square else root + 1


def _variance(statistic: VectorStatistic, noise: Noise) -> Fraction | None:
    if noise.form == "rho":
        return statistic.l2_squared / (2 * Fraction(noise.amount))
    if noise.form == "sigma":
        return Fraction(noise.amount) ** 2
    sigma = largest_refined_sigma(
        error=Fraction(noise.amount),
        confidence=Decimal(str(noise.confidence)),
        grid=statistic.grid,
    )
    return None if sigma is None else Fraction(sigma) ** 2


def _epsilon(statistic: VectorStatistic, noise: Noise) -> Fraction | None:
    if noise.form == "epsilon":
        return Fraction(noise.amount)
    epsilon = least_laplace_epsilon(
        error=Fraction(noise.amount),
        confidence=Decimal(str(noise.confidence)),
        grid=statistic.grid,
        l1=statistic.l1,
    )
    return None if epsilon is None else Fraction(epsilon)


def _halvings(finest: Fraction, first: Fraction | None, noise: Noise, cells: int) -> int:
    """Return how often the finest level can be doubled without exceeding the first one."""
    if first is None:
        return DEFAULT_HALVINGS
    halvings = (first // finest).bit_length() - 1
    most = min(MAX_LEVELS, MAX_SHOWN // cells)
    if not 0 <= halvings < most:
        rule = f"must be at least the finest level, and leave at most {most} levels"
        if most < MAX_LEVELS:
            rule += f" of {cells} numbers"
        raise RequestInvalid("noise.first", rule, str(noise.first))
    return halvings


def _in_range(numbers: Callable[[int], tuple[int, int]], halvings: int) -> tuple[int, int, int]:
    """Return the least power of ten as unit in which a claim can name its numbers, and those."""
    unit = 1
    while True:
        sensitivity, finest = numbers(unit)
        if max(sensitivity, finest << halvings) < int(LARGEST) * UNIT:
            return unit, sensitivity, finest
        unit *= 10
