"""Amounts, names and times by docs/reference/records.md."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

_AMOUNT: Final = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,40})?(e-?[0-9]{1,2})?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,99}")
_UNIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_DIRECTION: Final = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_MARKS: Final = "\u061c\u200e\u200f"
_LEAST, _MOST = Fraction("1e-40"), Fraction(10**9)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ID: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def amount(text: object) -> Fraction | None:
    """Return the exact value of an amount on the wire; None if it is not one."""
    if not isinstance(text, str) or len(text) > 64 or _AMOUNT.fullmatch(text) is None:
        return None
    value = Fraction(text)
    return value if not value or _LEAST <= value <= _MOST else None


def within(value: Fraction | None, least: Fraction, most: Fraction, *, zero: bool = True) -> bool:
    """Return whether an amount lies within bounds, or is a zero that is allowed."""
    return value is not None and (least <= value <= most or (zero and not value))


def is_delta(value: Fraction | None) -> bool:
    """Return whether an amount is at least 0 and less than 1."""
    return value is not None and value < 1


def is_name(text: Any) -> bool:
    """Return whether a text may name a dataset, a person, a program, a team or a population."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def is_hidden(character: str) -> bool:
    """Return whether a character is forbidden in all texts, because it acts where it is shown."""
    return (
        unicodedata.category(character) in {"Cc", "Zl", "Zp"}
        or unicodedata.bidirectional(character) in _DIRECTION
        or character in _MARKS
    )


def is_time(text: Any) -> bool:
    """Return whether a text is a time of the log, on a valid date."""
    if not isinstance(text, str) or _TIME.fullmatch(text) is None:
        return False
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    except ValueError:
        return False
    return True


def is_unit(text: Any) -> bool:
    """Return whether a text may be a policy's unit."""
    return isinstance(text, str) and _UNIT.fullmatch(text) is not None


@lru_cache(maxsize=65_536)
def millis(text: str) -> int:
    """Return milliseconds since 1970 of a time on the wire; -1 for another text."""
    if not isinstance(text, str) or _TIME.fullmatch(text) is None:
        return -1
    moment = datetime.fromisoformat(text)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def is_id(value: object) -> bool:
    """Return whether a value is a UUIDv7."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def issued(request_id: str) -> int:
    """Return the creation time of an id, milliseconds since 1970."""
    return int(request_id.replace("-", "")[:12], 16)


def at_text(at: int) -> str:
    """Return the wire format of a time in milliseconds since 1970."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def is_short(value: object) -> bool:
    """Return whether a value is a text for people."""
    return isinstance(value, str) and len(value) <= 200
