"""Times for people: in UTC, to the minute."""

from __future__ import annotations

from typing import Final

from accountant.times import from_iso

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_UNITS: Final = ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"))


def moment(iso: str | None) -> str:
    """Return a time of the log, `2026-11-21T10:00:00.012Z`, as `2026-11-21 10:00 UTC`."""
    return f"{iso[:10]} {iso[11:16]} UTC" if iso else ""


def day(iso: str | None) -> str:
    """Return the day of a time of the log: `2026-11-21`."""
    return (iso or "")[:10]


def time_until(iso: str, now: int) -> str:
    """Return how long it is until a time, rounded up: `in 5 hours`; "" once it has come.

    Args:
        now: milliseconds since 1970.
    """
    remaining = from_iso(iso) - now
    if remaining <= 0:
        return ""
    unit, name = next(each for each in _UNITS if remaining > 2 * each[0] or each[0] == _MINUTE)
    count = -(-remaining // unit)
    return f"in {count:,} {name}{'s' * (count != 1)}"


def each_period(text: str) -> str:
    """Return a period in words: `P1D` is `each day`, `P30D` is `every 30 days`."""
    days = int(text[1:-1])
    return "each day" if days == 1 else f"every {days:,} days"
