"""Our bounds against reference values of 34 digits, compared as fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tests.accountant.reference import EQUAL, INVERSES, LOWER, OURS, ROWS, Number

TOLERANCE = Fraction(1, 10**9)
# The values themselves are rounded to 34 digits.
PRINTED = Fraction(1, 10**33)


def rows_of(names: Any) -> list[Any]:
    return [
        pytest.param(row, id=f"{row['bound'][:30]}-{i}")
        for i, row in enumerate(ROWS)
        if row["bound"] in names
    ]


@pytest.mark.parametrize("row", rows_of(OURS))
def test_a_bound_brackets_its_reference(row: dict[str, Any]) -> None:
    direction, function = OURS[row["bound"]]
    ours: Number | Decimal | None = function(row["inputs"])
    assert ours is not None
    if row["value"] == "inf":
        assert ours == math.inf
        return
    ours, exact = Fraction(ours), Fraction(row["value"])
    if direction == EQUAL:
        assert abs(ours - exact) <= exact * Fraction(1, 10**12)
        assert isinstance(function(row["inputs"]), Fraction) or ours == exact
    elif direction == LOWER:
        assert exact * (1 - TOLERANCE) <= ours <= exact * (1 + PRINTED)
    else:
        assert exact * (1 - PRINTED) <= ours <= exact * (1 + TOLERANCE)


# A value clamped at 0 says nothing about its inverse.
@pytest.mark.parametrize(
    "row", [row for row in rows_of(INVERSES) if row.values[0]["value"] != "0.0"]
)
def test_a_capacity_inverts_its_filter(row: dict[str, Any]) -> None:
    ours, exact = INVERSES[row["bound"]](row["value"], row["inputs"])
    # The row's own rounding moves its inverse by a little more than itself.
    assert exact * (1 - TOLERANCE) <= ours <= exact * (1 + Fraction(1, 10**28))


def test_every_function_has_rows() -> None:
    names = {row["bound"] for row in ROWS}
    assert set(OURS) | set(INVERSES) <= names
