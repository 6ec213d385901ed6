"""Sessions that a question may run: one answer, shown with less and less noise.

Each level has half the variance or scale of the one before. Levels are multiples of the finest by
powers of two, so each is an exact decimal, and a claim can name it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from accountant.amounts import LARGEST, UNIT, format_units
from accountant.errors import RequestInvalid
from accountant.questions.noise import Noise

MAX_LEVELS: Final = 64
DEFAULT_HALVINGS: Final = 10
"""From the first level to the finest, where the analyst names no first one: 11 levels."""
MAX_SHOWN: Final = 150_000
"""Numbers of all levels together. The longest take 100 bytes, so an answer has less than the 16 MiB
that a record of answers may have on Kafka. 10,000 groups with 11 levels are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of a session.

    Attributes:
        noise: the variance in squared units of the answer, or the scale in its units; exact.
        text: the same in the units of the claim, as `shown` of a `settle` names it.
        cost: of everything shown up to this level: rho of a Gaussian refinement, epsilon of
            Laplace noise reduction; exact, in nats.
    """

    noise: Fraction
    text: str
    cost: Fraction


def levels_down(
    first: Fraction, finest: Fraction, *, unit: int, cost: Callable[[Fraction], Fraction]
) -> tuple[Level, ...]:
    """Return a session's levels, from the first to the finest, each half of the one before.

    Args:
        first, finest: variances or scales as the claim has them, in units of `unit`.
        cost: of such a variance or scale. Only the last level shown counts (docs/theory.md P4 and
            section 5).
    """
    levels, noise = list[Level](), first
    while noise >= finest:
        text = format_units(int(noise * UNIT))
        levels.append(Level(noise=noise * unit, text=text, cost=cost(noise)))
        noise /= 2
    return tuple(levels)


def sqrt_up(value: Fraction) -> int:
    """Return a square root in units of 1e-40, rounded up."""
    square = math.ceil(value * UNIT**2)
    root = math.isqrt(square)
    return root if root * root == square else root + 1


def count_halvings(finest: Fraction, first: Fraction | None, noise: Noise, cells: int) -> int:
    """Return how often the finest level can be doubled without exceeding the first one.

    Raises: RequestInvalid: not once, or too often.
    """
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


def in_range(numbers: Callable[[int], tuple[int, int]], halvings: int) -> tuple[int, int, int]:
    """Return the least power of ten as unit in which a claim can name its numbers, and those."""
    unit = 1
    while True:
        sensitivity, finest = numbers(unit)
        if max(sensitivity, finest << halvings) < int(LARGEST) * UNIT:
            return unit, sensitivity, finest
        unit *= 10
