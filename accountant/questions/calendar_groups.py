"""Groups of dates and times: years, quarters, months, weeks, days, weekdays and hours.

Each group of the declared range is answered. Weeks are those of ISO 8601, from Monday on. A weekday
and an hour are of any week and of any day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, get_args

from accountant.questions.groups import GroupSet
from accountant.questions.local_times import LocalTime, day_number
from accountant.questions.schema import DateColumn, TimeColumn, name_text
from accountant.questions.schema_values import SchemaValue
from accountant.questions.zone_rules import DAY_S, EPOCH_DAY

CalendarPart = Literal["year", "quarter", "month", "week", "day", "weekday", "hour"]
PARTS: Final[tuple[CalendarPart, ...]] = get_args(CalendarPart)
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HOURS: Final = tuple(f"{hour:02}" for hour in range(24))


@dataclass(frozen=True, slots=True)
class CalendarGroups(GroupSet):
    """The parts of a declared range of dates, or of a week or a day."""

    column: DateColumn | TimeColumn
    part: CalendarPart

    @property
    def heading(self) -> str:
        """The text of the part of the column."""
        return f"{self.part}({name_text(self.column.name)})"

    @property
    def size(self) -> int:
        """How many groups the range has."""
        match self.part:
            case "weekday":
                return len(_WEEKDAYS)
            case "hour":
                return len(_HOURS)
            case _:
                return self.number(self.column.dates[1]) - self.first_number + 1

    @property
    def first_number(self) -> int:
        """The number of the first date."""
        return self.number(self.column.dates[0])

    @property
    def values(self) -> tuple[str, ...]:
        """The name of each group, such as `2026`, `2026-Q1`, `2026-03` or `2026-W09`."""
        match self.part:
            case "weekday":
                return _WEEKDAYS
            case "hour":
                return _HOURS
            case _:
                return tuple(self._names())

    def _names(self) -> Iterator[str]:
        for number in range(self.first_number, self.first_number + self.size):
            match self.part:
                case "year":
                    yield f"{number:04}"
                case "quarter":
                    yield f"{number // 4:04}-Q{number % 4 + 1}"
                case "month":
                    yield f"{number // 12:04}-{number % 12 + 1:02}"
                case "week":
                    # The Thursday names it, and may be after the year 9999.
                    year, week, _ = date.fromordinal(7 * number + 1).isocalendar()
                    yield f"{year:04}-W{week:02}"
                case _:
                    yield str(date.fromordinal(number + EPOCH_DAY))

    def number(self, day: date) -> int:
        """Return the number of a date's year, quarter, month, week or day."""
        match self.part:
            case "year":
                return day.year
            case "quarter":
                return day.year * 4 + (day.month - 1) // 3
            case "month":
                return day.year * 12 + day.month - 1
            case "week":
                return (day.toordinal() - 1) // 7  # the year 1 begins with a Monday
            case _:
                return day_number(day)

    def place(self, value: SchemaValue) -> int:
        """Return the position of a date or a time."""
        if self.part == "hour":
            assert isinstance(value, LocalTime), "a date has no hour"
            return value.second % DAY_S // 3600
        day = value.day if isinstance(value, LocalTime) else value
        assert isinstance(day, date), "`check_question` checks the column's kind"
        return day.weekday() if self.part == "weekday" else self.number(day) - self.first_number
