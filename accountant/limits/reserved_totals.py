"""The totals that shares reserve from others. Running sums, never lists.

Amounts are exact, fractions of a unit too: a share that is used up to the last part of a unit
reserves nothing more. Proof that every share can be used: docs/theory.md, section 3.
"""

from __future__ import annotations

from operator import add, sub
from typing import NamedTuple

from accountant.amounts import Units
from accountant.fractional import Fractional, parts_of

Sums = tuple[Units, ...]
"""An amount for each sum of a dataset's filter; empty where there is none."""


class ReservedTotals(NamedTuple):
    """The shares of analysts within one team's.

    Attributes:
        unused: what they still reserve together.
        total: what they come to together, used or not.
    """

    unused: Sums = ()
    total: Sums = ()


def plus(one: Sums, other: Sums) -> Sums:
    """Return the sums of both; an empty one is none."""
    return tuple(map(add, one, other)) if one and other else one or other


def minus(one: Sums, other: Sums) -> Sums:
    """Return the difference; an empty subtrahend is none."""
    return tuple(map(sub, one, other)) if other else one


def larger(one: Sums, other: Sums) -> Sums:
    """Return the larger amount of each sum; an empty one is nothing."""
    if not one or not other:
        return one or other
    # `max` compares what is rounded up, and two parts of one unit are then the same.
    parted = Fractional in map(type, one) or Fractional in map(type, other)
    return tuple(map(_larger if parted else max, one, other))


def smaller(one: Sums, other: Sums) -> Sums:
    """Return the smaller amount of each sum."""
    return minus(plus(one, other), larger(one, other))


def unused_share(share: Sums, used: Sums) -> Sums:
    """Return what is left of a share, nothing below 0."""
    return larger(minus(share, used), (0,) * len(share))


def any_reserved(amounts: Sums) -> bool:
    """Tell whether something is reserved."""
    return any(amounts)


def _larger(one: Units, other: Units) -> Units:
    # Whatever a share is used for is finite.
    assert isinstance(one, int)
    assert isinstance(other, int)
    return one if parts_of(one) >= parts_of(other) else other
