"""A period of days in UTC, as commands, routes and pages ask for it."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import Final, NamedTuple

from accountant.errors import RequestInvalid

_LONGEST: Final = 100  # of a text that an error repeats


class Period(NamedTuple):
    """Days in UTC, by the decisions' own clock.

    Attributes:
        first, last: such as `2026-10-01`; "" for no bound.
    """

    first: str = ""
    last: str = ""

    def has(self, day: str) -> bool:
        """Tell whether a day is in it."""
        return self.first <= day and (not self.last or day <= self.last)

    @property
    def query(self) -> dict[str, str]:
        """The parameters of an address that ask for it."""
        named = {"from": self.first, "to": self.last}
        return {name: text for name, text in named.items() if text}


def month_period(month: str) -> Period:
    """Return the days of a month such as `2026-10`."""
    return Period(f"{month}-01", f"{month}-{monthrange(int(month[:4]), int(month[5:]))[1]:02d}")


def parse_period(month: str, first: str, last: str) -> Period:
    """Return the period of the parameters `month`, `from` and `to`; "" for one that is not given.

    Raises: RequestInvalid: one breaks its rule.
    """
    if month and (first or last):
        raise RequestInvalid("month", "must be left out beside from and to", month[:_LONGEST])
    if month:
        if not _is_day(f"{month}-01"):
            raise RequestInvalid("month", "must be a month such as 2026-10", month[:_LONGEST])
        return month_period(month)
    for name, text in (("from", first), ("to", last)):
        if text and not _is_day(text):
            raise RequestInvalid(name, "must be a day such as 2026-10-01", text[:_LONGEST])
    if first and last and first > last:
        raise RequestInvalid("to", f"must not be before from, {first}", last)
    return Period(first, last)


def months_between(first: str, last: str) -> list[str]:
    """Return the months from one day to another, none where the second is earlier."""
    found, year, month = list[str](), int(first[:4]), int(first[5:7])
    while (name := f"{year:04d}-{month:02d}") <= last[:7] and first <= last:
        found.append(name)
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return found


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
