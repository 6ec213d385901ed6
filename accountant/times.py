"""Times: ISO text in UTC on the wire, milliseconds since 1970 in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH: Final = len("2026-11-21T10:00:00.012Z")
# A UUID of version 7 begins with its time in milliseconds, 48 bits.
_DIGITS: Final = bytes.maketrans(b"123456789abcdef", b"0" * 15)
_SHAPE: Final = b"00000000-0000-0000-0000-000000000000"
_VARIANTS: Final = frozenset("89ab")

ID_PATTERN: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
"""The texts that `issued_at` reads."""


class ClockResets(NamedTuple):
    """The resets of a partition's clock.

    Attributes:
        number: how many there were.
        last_to: the time that the last one set, in milliseconds since 1970; 0 without any.
    """

    number: int = 0
    last_to: int = 0


NO_RESETS: Final = ClockResets()


@lru_cache(maxsize=4096)
def iso(at: int) -> str:
    """Return `2026-11-21T10:00:00.012Z` for a time in milliseconds since 1970."""
    second, millisecond = divmod(at, 1000)
    return f"{_second(second)}.{millisecond:03d}Z"


@lru_cache(maxsize=64)
def _second(at: int) -> str:
    return (_EPOCH + timedelta(seconds=at)).isoformat()[:-6]


@lru_cache(maxsize=4096)
def from_iso(text: str) -> int:
    """Return the milliseconds since 1970 of a text that `iso` wrote.

    Raises: ValueError: not such a time.
    """
    # The times of a log that follow one another have few seconds.
    if len(text) == _LENGTH and text[4] + text[10] + text[19] + text[23] == "-T.Z":
        milliseconds = text[20:23]
        if milliseconds.isascii() and milliseconds.isdigit():
            second = _start_of_second(text[:20])
            return _parse_iso(text) if second is None else second + int(milliseconds)
    return _parse_iso(text)


@lru_cache(maxsize=256)
def _start_of_second(begin: str) -> int | None:
    """Return the start of a time's second from its text up to the point; None if it is none."""
    try:
        return _parse_iso(f"{begin}000Z")
    except ValueError:
        return None


def _parse_iso(text: str) -> int:
    # It takes a tenth of strptime's time, but accepts more forms than `iso` writes.
    moment = datetime.fromisoformat(text)
    if len(text) != _LENGTH or text[-1] != "Z":
        raise ValueError(f"not a time of the log: {text[:80]}")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def issued_at(request_id: str) -> int | None:
    """Return a UUIDv7's time in milliseconds since 1970, None for any other text."""
    # The texts of `ID_PATTERN`, in less time: each digit becomes 0, then the shape is compared.
    if not request_id.isascii() or request_id.encode().translate(_DIGITS) != _SHAPE:
        return None
    if request_id[14] != "7" or request_id[19] not in _VARIANTS:
        return None
    return int(request_id[:8] + request_id[9:13], 16)


def uuid7(at: int, random: bytes) -> str:
    """Return a UUIDv7 of a time in milliseconds since 1970 and 10 random bytes."""
    digits = f"{at:012x}7{random.hex()[:3]}{0x8 | random[9] & 0x3:x}{random.hex()[4:19]}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def utc_iso(moment: datetime) -> str:
    """Return the text of a moment that knows its zone, the part of a millisecond left off.

    Raises: ValueError: it knows no zone.
    """
    if moment.tzinfo is None:
        raise ValueError("the moment must know its zone")
    return iso((moment - _EPOCH) // timedelta(milliseconds=1))
