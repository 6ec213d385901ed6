"""How a ledger's amounts are written in decisions and rows."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from accountant.ledger.snapshots import format_reading


@given(st.one_of(st.just(0.0), st.floats(1e-300, 1e300)))
def test_a_reading_is_never_written_below_its_value(value: float) -> None:
    written = Decimal(format_reading(value))
    assert Decimal(value) <= written <= Decimal(value) * Decimal("1.0000000012")


def test_an_infinite_reading_is_written_as_inf() -> None:
    assert format_reading(float("inf")) == "inf"
