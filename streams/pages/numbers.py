"""Amounts as people read them: a few digits, rounded to the side that promises less."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

_DIGITS: Final = 4
_LEAST, _MOST = Decimal("0.000001"), Decimal("1e9")


def short_down(amount: str | Decimal) -> str:
    """Return an amount with four digits, rounded down: of what is left."""
    return _short(amount, ROUND_FLOOR)


def short_up(amount: str | Decimal) -> str:
    """Return an amount with four digits, rounded up: of what is spent."""
    return _short(amount, ROUND_CEILING)


def _short(amount: str | Decimal, rounding: str) -> str:
    """Return an amount in a few digits, and text that is no amount as it is, such as `inf`."""
    try:
        exact = Decimal(amount)
    except ArithmeticError:
        return str(amount)
    if not exact.is_finite() or not exact:
        return str(amount) if not exact.is_finite() else "0"
    rounded = Context(prec=_DIGITS, rounding=rounding).plus(exact).normalize()
    if _LEAST <= abs(rounded) < _MOST:
        return f"{rounded:f}"
    return f"{rounded:e}".replace("e+", "e")


def plain_time(time: str) -> str:
    """Return a time of a record, `2026-11-21T10:00:00.012Z`, as `2026-11-21 10:00:00 UTC`."""
    return f"{time[:10]} {time[11:19]} UTC"
