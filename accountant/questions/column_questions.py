"""What can be asked of each kind of column, as questions that run as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from typing import Final

from accountant.questions.calendar_groups import PARTS, CalendarGroups
from accountant.questions.decimals import decimal_text
from accountant.questions.parts import middle_of
from accountant.questions.schema import (
    MAX_CANDIDATES,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    TimeColumn,
    name_text,
)

_BANDS: Final = 10
_TOP: Final = 3


def questions_of(column: Column) -> tuple[str, ...]:
    """Return examples of what can be asked of a column; the most common come first."""
    name = name_text(column.name)
    if isinstance(column, NumberColumn):
        return tuple(_of_numbers(column, name))
    if isinstance(column, CategoryColumn):
        most = min(_TOP, len(column.categories))
        first = column.categories[0].replace("'", "''")
        return f"histogram({name})", f"top({name}, {most})", f"count where {name} = '{first}'"
    if isinstance(column, DateColumn | TimeColumn):
        return tuple(_of_dates(column, name))
    return f"count by {name}", f"count where {name} = true"


def _of_numbers(column: NumberColumn, name: str) -> Iterator[str]:
    yield f"mean({name})"
    if column.candidates <= MAX_CANDIDATES:
        yield f"median({name})"
    yield f"sum({name})"
    lower, upper = column.bounds
    if upper - lower >= _BANDS * column.grid:
        yield f"histogram({name}, width {decimal_text(_width(column))})"
    yield f"count where {name} >= {decimal_text(middle_of(column))}"


def _width(column: NumberColumn) -> Fraction:
    """Return the least of 1, 2 or 5 times a power of ten by which there are about ten bands."""
    lower, upper = column.bounds
    power = Fraction(1)
    while power * _BANDS < upper - lower:
        power *= 10
    while power * _BANDS >= upper - lower:
        power /= 10
    size = next(each for each in (2, 5, 10) if each * power * _BANDS >= upper - lower)
    return size * power


def _of_dates(column: DateColumn | TimeColumn, name: str) -> Iterator[str]:
    # A range of a thousand years has more months than a question may have groups.
    of_range = [part for part in PARTS if part not in {"weekday", "hour"}]
    sizes = {part: CalendarGroups(column, part).size for part in of_range}
    common = next(part for part in ("month", "year") if sizes[part] <= MAX_CANDIDATES)
    yield f"count by {common}({name})"
    yield f"count by {'hour' if isinstance(column, TimeColumn) else 'weekday'}({name})"
    first, last = (each.toordinal() for each in column.dates)
    yield f"count where {name} >= '{date.fromordinal((first + last) // 2)}'"


def questions_hint(column: Column) -> str:
    """Return what may be asked of a column where another kind is wanted."""
    *most, last = questions_of(column)
    return f"ask {', '.join(most)} or {last}"
