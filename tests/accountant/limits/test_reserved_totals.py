"""Sums of shares are compared exactly, fractions of a unit too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accountant.fractional import PARTS, amount_of, parts_of
from accountant.limits.reserved_totals import larger, smaller, unused_share

# Around whole units, where amounts that differ are the same rounded up.
_PARTS = st.builds(
    lambda units, part: units * PARTS + part * (PARTS // 9), st.integers(0, 2), st.integers(0, 9)
)
_SUMS = st.tuples(_PARTS, _PARTS)


@given(_SUMS, _SUMS)
def test_the_maximum_minimum_and_unused_part_of_shares_are_exact(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    here, there = tuple(map(amount_of, one)), tuple(map(amount_of, other))

    def parts(amounts: tuple[int | float, ...]) -> list[int]:
        return [parts_of(each) for each in amounts if isinstance(each, int)]

    pairs = list(zip(one, other, strict=True))
    found = [parts(each(here, there)) for each in (larger, smaller, unused_share)]
    left = [max(share - used, 0) for share, used in pairs]
    assert found == [list(map(max, pairs)), list(map(min, pairs)), left]
