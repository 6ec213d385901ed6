"""The rules of a time zone, from a file of the IANA database: what its clocks show at an instant.

Instants are seconds since 1970 in UTC. The file arrives as bytes, so that the rules are those of
one named version and never the machine's.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

DAY_S: Final = 86_400
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_LAST_YEAR: Final = 9_999
_HEADER: Final = struct.Struct(">4sc15x6l")
_OFFSET: Final = r"[+-]?[0-9]{1,3}(?::[0-9]{2}){0,2}"
_NAME: Final = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_FOOTER: Final = re.compile(
    rf"{_NAME}(?P<standard>{_OFFSET})"
    rf"(?:{_NAME}(?P<summer>{_OFFSET})?,(?P<begin>[^,]+),(?P<end>[^,]+))?"
)
_CHANGE: Final = re.compile(
    rf"(?:M(?P<month>[0-9]{{1,2}})\.(?P<week>[1-5])\.(?P<weekday>[0-6])|(?P<julian>J?)(?P<day>[0-9]{{1,3}}))"
    rf"(?:/(?P<time>{_OFFSET}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRules:
    """When the clocks of a zone change, and what they show.

    Attributes:
        name: of the zone.
        version: of the database that the rules are from, such as `tzdata 2026.6`; "" of UTC.
        changes: the instants at which the difference to UTC changes, increasing.
        offsets: the difference in seconds before the first change, and from each one on.
    """

    name: str
    version: str
    changes: tuple[int, ...]
    offsets: tuple[int, ...]

    def local_second(self, instant: int) -> int:
        """Return what the clocks show at an instant, as seconds since 1970 on these clocks."""
        return instant + self.offsets[bisect_right(self.changes, instant)]


UTC: Final = ZoneRules(name="UTC", version="", changes=(), offsets=(0,))
"""The clocks where a schema names no zone."""


def parse_zone(name: str, version: str, content: bytes) -> ZoneRules:
    """Return the rules of a file in the TZif format (RFC 8536), up to the year 9999.

    Raises: ValueError: another form.
    """
    changes, offsets, footer = _read_block(content)
    for at, offset in _changes_of_footer(footer, changes[-1] if changes else None):
        changes.append(at)
        offsets.append(offset)
    kept = [i for i in range(len(changes)) if offsets[i + 1] != offsets[i]]
    return ZoneRules(
        name=name,
        version=version,
        changes=tuple(changes[i] for i in kept),
        offsets=(offsets[0], *(offsets[i + 1] for i in kept)),
    )


def _read_block(content: bytes) -> tuple[list[int], list[int], str]:
    """Return the changes and offsets of a file's block of 64-bit times, and its footer."""
    try:
        magic, version, *counts = _HEADER.unpack_from(content)
        if magic != b"TZif" or version < b"2":
            raise ValueError("must be a TZif file of version 2 or later")
        start = _HEADER.size + _block_size(counts, 4)
        _, _, *counts = _HEADER.unpack_from(content, start)
        at = start + _HEADER.size
        _, _, _, times, types, _ = counts
        changes = list(struct.unpack_from(f">{times}q", content, at))
        kinds = struct.unpack_from(f">{times}B", content, at + 8 * times)
        each = [struct.unpack_from(">lBB", content, at + 9 * times + 6 * i) for i in range(types)]
    except struct.error as error:
        raise ValueError(f"must be a TZif file: {error}") from None
    footer = content[at + _block_size(counts, 8) :].decode("ascii")
    # RFC 8536 3.2: before the first change, the clocks show the first type.
    offsets = [each[0][0], *(each[kind][0] for kind in kinds)]
    return changes, offsets, footer.strip("\n")


def _block_size(counts: list[int], time_bytes: int) -> int:
    ut, standard, leaps, times, types, characters = counts
    return (
        times * (time_bytes + 1) + types * 6 + characters + leaps * (time_bytes + 4) + standard + ut
    )


def _changes_of_footer(footer: str, after: int | None) -> Iterator[tuple[int, int]]:
    """Yield the changes, with the offset from each on, that a footer describes (RFC 8536 3.3)."""
    if not footer:
        return
    found = _FOOTER.fullmatch(footer)
    if found is None:
        raise ValueError("must have a footer in the form of POSIX")
    standard = -_seconds(found["standard"])
    if found["begin"] is None:
        return  # the last change has led to it
    summer = standard + 3600 if found["summer"] is None else -_seconds(found["summer"])
    begin, end = _change(found["begin"]), _change(found["end"])
    first = 1 if after is None else date.fromordinal(EPOCH_DAY + after // DAY_S).year
    for year in range(first, _LAST_YEAR + 1):
        both = [(begin(year) - standard, summer), (end(year) - summer, standard)]
        yield from ((at, offset) for at, offset in sorted(both) if after is None or at > after)


def _change(text: str) -> Callable[[int], int]:
    """Return what gives the local second of a change in a year."""
    found = _CHANGE.fullmatch(text)
    if found is None:
        raise ValueError("must have changes in the form of POSIX")
    time = 2 * 3600 if found["time"] is None else _seconds(found["time"])

    def local_second(year: int) -> int:
        return (_day_of(found, year) - EPOCH_DAY) * DAY_S + time

    return local_second


def _day_of(found: re.Match[str], year: int) -> int:
    """Return the day of a change as an ordinal."""
    if found["day"] is not None:
        new_year, day = date(year, 1, 1).toordinal(), int(found["day"])
        if not found["julian"]:
            return new_year + day
        is_leap = date(year, 3, 1).toordinal() - new_year > 59
        return new_year + day - 1 + (is_leap and day > 59)
    first = date(year, int(found["month"]), 1)
    # POSIX counts from Sunday, week 5 is the last one.
    day = first.toordinal() + (int(found["weekday"]) - first.isoweekday()) % 7
    day += 7 * (int(found["week"]) - 1)
    return day if date.fromordinal(day).month == first.month else day - 7


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = (*map(int, text.lstrip("+-").split(":")), 0, 0)[:3]
    return sign * (hours * 3600 + minutes * 60 + seconds)
