"""Suggestions for amounts, parts and periods that are written in another form.

Errors compute them when they are shown, and no record has them.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_LONGEST: Final = 40
_NUMBER: Final = re.compile(r"\+?([0-9]{0,9})(?:[.,]([0-9]{1,30}))?")
_LONG_EXPONENT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,30})?[eE]-?[0-9]{3,9}")
_PERIOD: Final = re.compile(
    r"p?\s*([1-9][0-9]{0,4})\s*(h|hours?|d|days?|w|weeks?|y|years?)", re.IGNORECASE
)
_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}


def _value(text: str) -> Decimal | None:
    """Return the value of a plain number with a point or a comma, None for another text."""
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None or not any(found.groups()):
        return None
    return Decimal(f"{found[1] or '0'}.{found[2] or '0'}")


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def decimal_to_write(text: str) -> str:
    """Return `write 0.35` for `0,35` or `.35`, "" where the meaning is not clear.

    Of a number with an exponent of three digits or more, return the smallest and largest amount.
    """
    if _LONG_EXPONENT.fullmatch(text):
        return "the smallest amount is 1e-40, the largest 1e9"
    value = _value(text)
    written = "" if value is None else _plain(value)
    return f"write {written}" if written and written != text else ""


def part_to_write(text: str) -> str:
    """Return `write 0.35` for `35 %`, `35%`, `0,35` or `35`, "" where it is not clear."""
    percent = text.strip().endswith("%")
    value = _value(text.strip().removesuffix("%"))
    if value is None:
        return ""
    is_percent = percent or value > 1
    part = value / 100 if is_percent else value
    if not 0 < part <= 1:
        return ""
    meant = "" if percent or not is_percent else f" for {_plain(value)} %"
    written = _plain(part)
    return f"write {written}{meant}" if written != text else ""


def period_to_write(text: str) -> str:
    """Return `write P7D` for `7d`, `7 days` or `P1W`, "" where it is no number of days."""
    found = _PERIOD.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        return ""
    hours = int(found[1]) * _HOURS[found[2][0].lower()]
    return "" if hours % 24 else f"write P{hours // 24}D"
