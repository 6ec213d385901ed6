"""Bands of numbers: groups between declared bounds, cut where the question says."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from accountant.questions.decimals import decimal_text
from accountant.questions.groups import GroupSet
from accountant.questions.schema import NumberColumn
from accountant.questions.schema_values import SchemaValue


@dataclass(frozen=True, slots=True)
class BandGroups(GroupSet):
    """Bands, each from a cut, which is in it, to below the next one; the last ends at `upper`.

    Attributes:
        text: of the bands in a question.
        cuts: increasing, between the column's bounds and neither of them.
        width: of which the cuts are all multiples, None of other cuts.
    """

    column: NumberColumn
    text: str
    cuts: tuple[Fraction, ...]
    width: Fraction | None = None

    @property
    def heading(self) -> str:
        """The text of the bands."""
        return self.text

    @property
    def size(self) -> int:
        """How many bands there are."""
        return len(self.cuts) + 1

    @property
    def values(self) -> tuple[str, ...]:
        """Each band, such as `[0, 18)`; of the last one both ends are in it."""
        lower, upper = self.column.bounds
        ends = [decimal_text(each) for each in (lower, *self.cuts, upper)]
        *bands, last = [f"[{low}, {high})" for low, high in pairwise(ends)]
        return (*bands, last[:-1] + "]")

    def place(self, value: SchemaValue) -> int:
        """Return the position of the band of a number."""
        assert isinstance(value, Fraction), "a number column has no other values"
        return bisect_right(self.cuts, value)


def multiples_within(column: NumberColumn, width: Fraction) -> range:
    """Return which multiples of a width are between a column's bounds, and neither of them."""
    lower, upper = column.bounds
    return range(math.floor(lower / width) + 1, math.ceil(upper / width))
