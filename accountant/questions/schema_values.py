"""What a cell of the data is read as: always a value of the schema, or missing, never an error."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Final

from msgspec import UNSET

from accountant.questions.decimals import round_half_up
from accountant.questions.local_times import LocalTime, day_number, read_local_second
from accountant.questions.schema import (
    BooleanColumn,
    CalendarColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    TimeColumn,
)
from accountant.questions.zone_rules import DAY_S, UTC, ZoneRules

SchemaValue = Fraction | str | bool | date | LocalTime
"""A number, a category, true or false, a date, or a time."""

_LONGEST: Final = 100
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_LARGEST_WHOLE: Final = 2**53
"""Floats below it in size are whole numbers exactly."""


def read_cell(column: Column, cell: object, zone: ZoneRules = UTC) -> SchemaValue | None:
    """Return the schema's value of a cell, None if it is missing.

    Whatever the cell holds, there is an answer: what the data hold never refuses a question.

    Args:
        zone: the schema's.
    """
    value = _read(column, cell, zone)
    return missing_value(column) if value is None else value


def missing_value(column: Column) -> SchemaValue | None:
    """Return what a missing value of a column is read as, None if it stays missing."""
    match column:
        case _ if column.missing is UNSET:
            return None
        case NumberColumn(missing=str(text)):
            return Fraction(text)
        case DateColumn(missing=str(text)):
            return date.fromisoformat(text)
        case TimeColumn(missing=str(text)):
            return LocalTime(day_number(date.fromisoformat(text)) * DAY_S)
        case _:
            return column.missing


def _read(column: Column, cell: object, zone: ZoneRules) -> SchemaValue | None:
    match column:
        case NumberColumn():
            return _number(column, cell)
        case CategoryColumn():
            text = identifier(cell)
            return text if text in column.categories else None
        case BooleanColumn():
            return _boolean(cell)
        case DateColumn():
            time = _time(column, cell, zone)
            return None if time is None else time.day
        case TimeColumn():
            return _time(column, cell, zone)


def _time(column: CalendarColumn, cell: object, zone: ZoneRules) -> LocalTime | None:
    second = read_local_second(cell, zone)
    first, last = map(day_number, column.dates)
    # Also what a zone shifts before the year 1 or after 9999.
    if second is None or not first * DAY_S <= second < (last + 1) * DAY_S:
        return None
    return LocalTime(second)


def identifier(cell: object) -> str | None:
    """Return the text of a cell that names something, None if it names nothing.

    A whole number is its digits, also as a float below 2^53 in size.
    """
    if isinstance(cell, str):
        return cell if _is_unicode(cell) else None
    if isinstance(cell, bool):
        return None
    if isinstance(cell, float) and abs(cell) < _LARGEST_WHOLE and cell == int(cell):
        cell = int(cell)
    if isinstance(cell, int) and abs(cell) < 10**_LONGEST:
        return str(cell)
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _boolean(cell: object) -> bool | None:
    if isinstance(cell, str):
        return {"true": True, "false": False}.get(cell)
    if isinstance(cell, int | float) and cell in (0, 1):
        return bool(cell)
    return None


def _number(column: NumberColumn, cell: object) -> Fraction | None:
    lower, upper = column.bounds
    if isinstance(cell, str):
        if len(cell) > _LONGEST or _NUMBER.fullmatch(cell) is None:
            return None
        cell = Decimal(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal | Fraction):
        return None
    if cell.is_nan() if isinstance(cell, Decimal) else isinstance(cell, float) and math.isnan(cell):
        return None
    # Compared before it is made a fraction: that of 1e999999 has a million digits.
    if cell >= upper:
        return upper
    if cell <= lower:
        return lower
    if isinstance(cell, Decimal) and cell.adjusted() < -column.places - 1:
        return Fraction(0)
    return round_half_up(Fraction(cell), column.grid)
