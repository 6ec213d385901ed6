"""Groups as SQL over the integers that `streams.sources.cells` makes of cells."""

from __future__ import annotations

from functools import singledispatch

from accountant.questions.band_groups import BandGroups
from accountant.questions.calendar_groups import CalendarGroups
from accountant.questions.groups import ColumnGroups, GroupSet
from accountant.questions.schema import TimeColumn
from accountant.questions.zone_rules import DAY_S, EPOCH_DAY
from streams.sources.cells import sql_value
from streams.sources.quoted import integer_literal


@singledispatch
def group_sql(groups: GroupSet, value: str) -> str:
    """Return the SQL of the position of a row's group.

    Args:
        value: SQL of the column's integer; NULL has no group.
    """
    raise TypeError(f"no SQL of {type(groups).__name__}")


@group_sql.register
def _of_column(groups: ColumnGroups, value: str) -> str:
    return value


@group_sql.register
def _of_calendar(groups: CalendarGroups, value: str) -> str:
    day = day_sql(value) if isinstance(groups.column, TimeColumn) else value
    # Days since the day before the year 1, a Sunday: `//` and `%` round to 0, and none is negative.
    ordinal = f"({day} + {EPOCH_DAY})"
    date = f"(DATE '1970-01-01' + ({day})::INTEGER)"
    match groups.part:
        case "weekday":
            return f"(({ordinal} - 1) % 7)"
        case "hour":
            return f"({_second_sql(value)} % {DAY_S} // 3600)"
        case "year":
            number = f"year({date})"
        case "quarter":
            number = f"(year({date}) * 4 + quarter({date}) - 1)"
        case "month":
            number = f"(year({date}) * 12 + month({date}) - 1)"
        case "week":
            number = f"(({ordinal} - 1) // 7)"
        case "day":
            number = day
    return f"({number} - {integer_literal(groups.first_number)})"


@group_sql.register
def _of_bands(groups: BandGroups, value: str) -> str:
    column = groups.column
    if groups.width is None:
        cuts = [integer_literal(sql_value(column, cut)) for cut in groups.cuts]
        return f"({' + '.join(['0::BIGINT', *(f'({value} >= {cut})::BIGINT' for cut in cuts)])})"
    # The first and the last band also have what a question clamps to its ends.
    width = integer_literal(sql_value(column, groups.width))
    first = integer_literal(sql_value(column, column.bounds[0] // groups.width * groups.width))
    place = f"(({value}::HUGEINT - {first}) // {width})"
    return f"greatest(0, least({len(groups.cuts)}, {place}))::BIGINT"


def day_sql(value: str) -> str:
    """Return the SQL of the days from 1970 to the date of a time."""
    return f"({_second_sql(value)} // {DAY_S} - {EPOCH_DAY})"


def _second_sql(value: str) -> str:
    """Return the SQL of the seconds of a time since the day before the year 1, never negative."""
    return f"({value} + {integer_literal(EPOCH_DAY * DAY_S)})"
