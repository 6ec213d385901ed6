"""What a cell says about time: seconds since 1970 on the clocks of a zone, or nothing.

A date is its midnight. A cell without a difference to UTC is what the clocks show, so that gaps and
the hour that clocks show twice decide nothing. One with a difference is an instant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from accountant.questions.zone_rules import DAY_S, EPOCH_DAY, ZoneRules

ISO_PATTERN: Final = (
    "([0-9]{4}-[0-9]{2}-[0-9]{2})"
    "(?:[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]|60)(?:[.,][0-9]{1,30})?)?"
    "(Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?"
)
"""Texts of dates and times in ISO 8601's extended form, in the syntax of Python and of DuckDB."""
_ISO: Final = re.compile(ISO_PATTERN)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, order=True)
class LocalTime:
    """What the clocks of a zone show, to the second.

    Attributes:
        second: since 1970, on these clocks; within the years 1 to 9999.
    """

    second: int

    @property
    def day(self) -> date:
        """Its date."""
        return date.fromordinal(EPOCH_DAY + self.second // DAY_S)

    def __str__(self) -> str:
        minutes, second = divmod(self.second % DAY_S, 60)
        return f"{self.day}T{minutes // 60:02}:{minutes % 60:02}:{second:02}"


def day_number(day: date) -> int:
    """Return the days from 1970 to a date."""
    return day.toordinal() - EPOCH_DAY


def read_local_second(cell: object, zone: ZoneRules) -> int | None:
    """Return what a cell says, None if it says nothing; it may be beyond the years 1 to 9999.

    Fractions of a second are dropped. Second 60 is read as 59.
    """
    if isinstance(cell, str):
        return _of_text(cell, zone)
    if not isinstance(cell, date) or cell != cell:  # noqa: PLR0124 - the missing time of pandas
        return None
    second = day_number(cell) * DAY_S
    if not isinstance(cell, datetime):
        return second
    second += (cell.hour * 60 + cell.minute) * 60 + cell.second
    offset = cell.utcoffset()
    if offset is None:
        return second
    instant = timedelta(seconds=second, microseconds=cell.microsecond) - offset
    return zone.local_second(instant // _SECOND)


def _of_text(text: str, zone: ZoneRules) -> int | None:
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    day, hour, minute, second, offset = found.groups()
    try:
        midnight = day_number(date.fromisoformat(day)) * DAY_S
    except ValueError:  # there is no such day
        return None
    if hour is None:
        return midnight
    shown = midnight + (int(hour) * 60 + int(minute)) * 60 + min(int(second or 0), 59)
    if offset is None:
        return shown
    return zone.local_second(shown - _offset(offset))


def _offset(text: str) -> int:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    sign = -1 if text[0] == "-" else 1
    return sign * (int(digits[:2]) * 60 + int(digits[2:])) * 60
