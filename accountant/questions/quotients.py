"""Quotients of noisy numbers and their intervals: post-processing, total whatever the noise."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Final, Protocol

Interval = tuple[Fraction, Fraction]


class Noises(Hashable, Protocol):
    """The noises of the parts of a statistic, as an interval needs them."""

    def half_width(self, coefficients: Sequence[Fraction], confidence: Decimal, /) -> Fraction:
        """Return the error that their sum with coefficients keeps with a confidence.

        Args:
            coefficients: of the first noises; the others have 0.
        """
        ...


QUOTIENT_PLACES: Final = 6
"""How many more digits after the point a mean has than its column."""
_CELLS: Final = 128


class QuotientSet:
    """Which quotients two noisy numbers leave, with a confidence fixed before they are drawn.

    For the true quotient u, `total - u count` is noise alone, of a known law. The set has each u
    within a range for which it is at most the error that this noise keeps. Source: docs/theory.md
    P17, after Fieller 1954.
    """

    def __init__(
        self,
        within: Interval,
        width: Callable[[Fraction], Fraction],
        *,
        cells: int = _CELLS,
    ) -> None:
        """Divide a range into cells.

        Args:
            within: where the quotient lies.
            width: the error that `total - u count` keeps; it grows with the size of u.
            cells: the width of each is that of its end, so that more of them are narrower.
        """
        low, high = within
        self._ends = [low + (high - low) * i / cells for i in range(cells + 1)]
        widths = [width(max(abs(a), abs(b))) for a, b in pairwise(self._ends)]
        self._above = _UpperEnd(self._ends, widths)
        self._below = _UpperEnd([-each for each in reversed(self._ends)], widths[::-1])

    def hull(self, total: Fraction, count: Fraction) -> Interval:
        """Return an interval that contains the set, and the quotient of the two in its range.

        All of the range where the count is not above 0.
        """
        low, high = self._ends[0], self._ends[-1]
        if count <= 0:
            return low, high
        nearest = clamp(total / count, (low, high))
        ends = -self._below.of(-total, count), self._above.of(total, count)
        return min(ends[0], nearest), max(ends[1], nearest)


class _UpperEnd:
    """A bound of the u with `u count - width(u) <= total`, cell by cell."""

    def __init__(self, ends: Sequence[Fraction], widths: Sequence[Fraction]) -> None:
        self._ends, self._widths = ends, widths
        steps = zip(pairwise(widths), pairwise(ends), strict=False)
        self._steepest = max((b - a) / (v - u) for (a, b), (u, v) in steps)

    def of(self, total: Fraction, count: Fraction) -> Fraction:
        """Return the largest such u, or the least end where there is none."""
        ends, widths, cells = self._ends, self._widths, range(len(self._widths))

        def is_above(i: int) -> bool:
            return ends[i] * count - widths[i] > total

        if count >= self._steepest:  # then the left side grows from cell to cell
            last = bisect_left(cells, True, key=is_above) - 1
        else:
            last = max((i for i in cells if not is_above(i)), default=-1)
        if last < 0:
            return ends[0]
        return min(ends[last + 1], (total + widths[last]) / count)


def clamp(value: Fraction, within: Interval) -> Fraction:
    """Return the nearest value of an interval."""
    return min(max(value, within[0]), within[1])
