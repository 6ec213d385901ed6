"""The expected values of a record: a value, or a range by the documented rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle.amounts import (
    INFINITE,
    Range,
    Real,
    as_text,
    fraction,
    is_kept,
    units,
    whole_up,
)
from tests.faults.oracle.disagreement import Disagreement

_DIGITS_UP: Final = Fraction(2, 10**9)
"""A reading has ten digits, rounded up: docs/reference/records/decision.md."""
_NOISE: Final = Fraction(1, 10**13)
"""Readings are doubles, rounded up: docs/decisions/0013."""

Fields = dict[str, Any]


class AmountRanges:
    """Amounts by name, each in a range of units, rounded up in the record.

    Args:
        single: of one mechanism, whose costs are rounded by themselves, to 20 digits.
    """

    def __init__(self, ranges: Mapping[str, Range], *, single: bool = False) -> None:
        self.ranges = {n: (whole_up(low), whole_up(high)) for n, (low, high) in ranges.items()}
        self._single = single

    def __eq__(self, said: object) -> bool:
        if not isinstance(said, dict) or said.keys() != self.ranges.keys():
            return False
        return all(self._is_right(units(said[name]), *span) for name, span in self.ranges.items())

    def _is_right(self, amount: float, low: float, high: float) -> bool:
        if not low <= amount <= high:
            return False
        return low == high or not self._single or is_kept(amount, low)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        spans = {n: f"{as_text(low)} to {as_text(high)}" for n, (low, high) in self.ranges.items()}
        return f"within {spans}"


class Readings:
    """Readings by name, each at least the exact one and next to it."""

    def __init__(self, exact: Mapping[str, Real]) -> None:
        self.exact = dict(exact)

    def __eq__(self, said: object) -> bool:
        if not isinstance(said, dict) or said.keys() != self.exact.keys():
            return False
        return all(_is_next_above(said[name], exact) for name, exact in self.exact.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"at or just above { {n: float(v) for n, v in self.exact.items()} }"


def _is_next_above(text: str, exact: Real) -> bool:
    if exact == INFINITE or text == "inf":
        return bool(exact == INFINITE and text == "inf")
    least = fraction(exact)
    return least * (1 - Fraction(1, 10**25)) <= Fraction(text) <= least * (1 + _DIGITS_UP + _NOISE)


class Holds:
    """A value that a function accepts."""

    def __init__(self, what: str, is_right: Callable[[Any], bool]) -> None:
        self._what = what
        self._is_right = is_right

    def __eq__(self, said: object) -> bool:
        return self._is_right(said)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self._what


def compare(said: Fields, predicted: Fields, where: object) -> None:
    """Compare a record field by field, in the predicted order; further fields are an error.

    Raises: Disagreement.
    """
    for name, value in predicted.items():
        # Asked in this order: it is the predicted that knows what it takes.
        if not (value == said.get(name)):
            raise Disagreement(name, said.get(name), value, where)
    for name in said.keys() - predicted.keys():
        raise Disagreement(name, said[name], None, where)
