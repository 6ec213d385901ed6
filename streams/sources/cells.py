"""SQL that reads a cell as `accountant.questions.schema_values.read_cell` does.

A value is an integer in SQL: a number as a multiple of its last place, a category as its position
in the schema, a boolean as 0 or 1. NULL is a missing value. No expression can fail on a cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Final

from accountant.questions.local_times import LocalTime, day_number
from accountant.questions.schema import (
    BooleanColumn,
    CalendarColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    TimeColumn,
)
from accountant.questions.schema_values import SchemaValue, missing_value, read_cell
from accountant.questions.zone_rules import EPOCH_DAY, UTC, ZoneRules
from streams.sources.quoted import double_literal, integer_literal, text_literal
from streams.sources.time_cells import (
    TimeStage,
    first_stage,
    first_stage_of_text,
    second_stage,
)

CSV_TEXT: Final = "text"
"""The type of each cell of a CSV file, in place of DuckDB's: a text, never guessed from others."""
HALF_FLOAT: Final = "half"
"""The type of a number of 16 bits, which DuckDB has as one of 32."""

_WHOLE: Final = frozenset(
    ("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger")
)
_WIDE: Final = frozenset(("ubigint", "hugeint", "uhugeint"))
_FLOATS: Final = {HALF_FLOAT: 2**11, "float": 2**24, "double": 2**53}
"""Of each type, the size below which each whole number has a value of its own."""
_BIGNUM: Final = "bignum"
_LONGEST_NAME: Final = 100
"""The most digits of a whole number that names something, as `identifier` has it."""
_TEXTS: Final = frozenset(("varchar", "enum", "uuid", CSV_TEXT))
_DIGITS: Final = 18
"""The most places of a text that SQL reads, more than a column may have."""
_DOUBLE_DIGITS: Final = 15
"""Whole numbers of so many digits, and their quarters, are doubles."""
_NARROW_LIMIT: Final = 2**62


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a source.

    Attributes:
        reference: what SQL calls it.
        type_id: DuckDB's name of its type, in lower case, or `CSV_TEXT`.
        places: digits after the point of a DECIMAL.
        digits: all digits of a DECIMAL.
    """

    reference: str
    type_id: str
    places: int = 0
    digits: int = 0


def schema_value(column: Column, value: int | None) -> SchemaValue | None:
    """Return the schema's value of an integer in SQL."""
    if value is None:
        return None
    match column:
        case NumberColumn():
            return value * column.grid
        case CategoryColumn():
            return column.categories[value]
        case BooleanColumn():
            return bool(value)
        case DateColumn():
            return date.fromordinal(EPOCH_DAY + value)
        case TimeColumn():
            return LocalTime(value)


def sql_value(column: Column, value: SchemaValue) -> int:
    """Return the integer in SQL of a schema's value."""
    match column:
        case NumberColumn():
            assert isinstance(value, Fraction)
            scaled = value / column.grid
            assert scaled.denominator == 1, "a value of a schema is on its grid"
            return scaled.numerator
        case CategoryColumn():
            assert isinstance(value, str)
            return column.categories.index(value)
        case BooleanColumn():
            return int(bool(value))
        case DateColumn() | TimeColumn():
            if isinstance(value, LocalTime):
                return value.second
            assert isinstance(value, date)
            return day_number(value)


def time_stage(column: Column, cell: SourceColumn | None) -> TimeStage | None:
    """Return the SQL that `value_sql` needs of a cell before, None if it needs none."""
    if cell is None or not isinstance(column, CalendarColumn):
        return None
    if cell.type_id in _TEXTS:
        return first_stage_of_text(_text(cell.reference))
    return first_stage(cell.type_id, cell.reference)


def value_sql(
    column: Column, cell: SourceColumn | None, functions: str, zone: ZoneRules | None = UTC
) -> str:
    """Return the SQL of a column's value.

    Args:
        cell: None if the source lacks the column: each of its cells is missing.
        functions: name of the column's pair of functions, which `exact_functions` defines; of
            dates and times, of the two columns of `time_stage`.
        zone: the schema's; None if nobody has its rules.
    """
    match column:
        case NumberColumn():
            value = _number(column, cell, functions)
        case CategoryColumn():
            value = _category(column, cell)
        case BooleanColumn():
            value = _boolean(cell)
        case DateColumn() | TimeColumn():
            value = "NULL::BIGINT"
            stage = time_stage(column, cell)
            if zone is not None and stage is not None:
                value = second_stage(column, zone, stage, functions)
    missing = missing_value(column)
    if missing is None:
        return value
    return f"coalesce({value}, {integer_literal(sql_value(column, missing))})"


def identifier_sql(cell: SourceColumn | None) -> str:
    """Return the SQL of the text that a cell names something by; NULL if it names nothing."""
    if cell is None:
        return "NULL::VARCHAR"
    x = cell.reference
    if cell.type_id in _TEXTS:
        return _text(x)
    if is_whole(cell) or cell.type_id in _WIDE:
        return f"({x}::VARCHAR)"
    if cell.type_id in _FLOATS:
        x = f"({x}::DOUBLE)"
        is_whole_number = f"abs({x}) < {_FLOATS[cell.type_id]} AND {x} = floor({x})"
        return f"(CASE WHEN {is_whole_number} THEN TRY_CAST({x} AS BIGINT)::VARCHAR END)"
    if cell.type_id == _BIGNUM:
        x = f"({x}::VARCHAR)"
        return f"(CASE WHEN strlen(ltrim({x}, '-')) <= {_LONGEST_NAME} THEN {x} END)"
    return "NULL::VARCHAR"


def is_whole(cell: SourceColumn | None) -> bool:
    """Tell whether each cell is a whole number; a DECIMAL without places is one."""
    return cell is not None and (
        cell.type_id in _WHOLE or (cell.type_id == "decimal" and cell.places == 0)
    )


def is_bigint(cell: SourceColumn | None) -> bool:
    """Tell whether each cell is a whole number of 64 bits."""
    return cell is not None and cell.type_id in _WHOLE


def number_type(column: NumberColumn) -> str:
    """Return the type of a number's values in SQL."""
    most = 10**column.places * math.ceil(max(map(abs, column.bounds)))
    return "BIGINT" if most < _NARROW_LIMIT else "HUGEINT"


def exact_functions(
    column: NumberColumn,
) -> tuple[Callable[[str | None], int | None], Callable[[float], int]]:
    """Return what reads texts, and doubles near the middle of two values, by `read_cell`."""
    plain = NumberColumn(
        name=column.name, lower=column.lower, upper=column.upper, places=column.places
    )

    def of_text(text: str | None) -> int | None:
        value = read_cell(plain, text)
        return None if value is None else sql_value(plain, value)

    def of_double(number: float) -> int:
        value = read_cell(plain, number)
        assert value is not None, "SQL sends no NaN"
        return sql_value(plain, value)

    return of_text, of_double


def _number(column: NumberColumn, cell: SourceColumn | None, functions: str) -> str:
    wide = number_type(column)
    if cell is None:
        return f"NULL::{wide}"
    x = cell.reference
    if is_whole(cell):
        return _whole_number(column, x, f"{x}::{'HUGEINT' if cell.type_id == 'decimal' else wide}")
    if cell.type_id in _WIDE:
        # The largest UHUGEINT is no HUGEINT; from 10^38 on every number is clamped anyway.
        capped = f"least({x}, {'9' * 38})" if cell.type_id == "uhugeint" else x
        return _whole_number(column, x, f"{capped}::HUGEINT")
    if cell.type_id == _BIGNUM:
        # It has no cast that cannot fail; from 10^37 on every number is clamped anyway.
        text, most = f"({x}::VARCHAR)", integer_literal(10**37)
        far = f"CASE WHEN starts_with({text}, '-') THEN -{most} ELSE {most} END"
        near = f"TRY_CAST({text} AS HUGEINT)"
        return _whole_number(
            column, x, f"(CASE WHEN strlen({text}) > 37 THEN {far} ELSE {near} END)"
        )
    if cell.type_id in _FLOATS:
        return _double(column, f"({x}::DOUBLE)", functions)
    if cell.type_id in _TEXTS:
        return _number_text(column, _text(x), functions)
    if cell.type_id == "decimal":
        return _number_text(column, f"({x}::VARCHAR)", functions)
    return f"NULL::{wide}"


def _whole_number(column: NumberColumn, cell: str, number: str) -> str:
    lower, upper = column.bounds
    # `greatest` and `least` ignore NULL, so it is decided first. The inner clamp is to whole
    # numbers: what is multiplied is small enough for every cell.
    low, high = integer_literal(math.floor(lower)), integer_literal(math.ceil(upper))
    inner = f"greatest({low}, least({high}, {number}))::{number_type(column)}"
    scaled = f"{inner} * {integer_literal(10**column.places)}"
    return f"(CASE WHEN {cell} IS NOT NULL THEN {clamp_sql(column, scaled)} END)"


def clamp_sql(column: NumberColumn, scaled: str) -> str:
    """Return the SQL of the nearest number within a column's bounds, of one that is not NULL."""
    low, high = (integer_literal(sql_value(column, bound)) for bound in column.bounds)
    return f"greatest({low}, least({high}, {scaled}))::{number_type(column)}"


def _double(column: NumberColumn, x: str, functions: str) -> str:
    """Return the SQL of a double, whose exact value decides how it is rounded.

    Between the bounds of a column without places, x - floor(x) is exact or far from 1/2. With
    places, the product has a relative error of 2^-53 at most: only where the product is as near
    to a middle as that can it decide wrongly, and there the exact function does.
    """
    wide = number_type(column)
    lower, upper = column.bounds
    low, high = (integer_literal(sql_value(column, bound)) for bound in (lower, upper))
    is_above = f"{x} >= {double_literal(_least_double_from(upper))}"
    is_below = f"{x} <= {double_literal(-_least_double_from(-lower))}"
    clamped = (
        f"WHEN {x} IS NULL OR isnan({x}) THEN NULL::{wide} "
        f"WHEN {is_above} THEN {high}::{wide} WHEN {is_below} THEN {low}::{wide}"
    )
    y = x if column.places == 0 else f"({x} * {double_literal(float(10**column.places))})"
    rounded = f"TRY_CAST(floor({y}) AS {wide}) + ({y} - floor({y}) >= 0.5::DOUBLE)::{wide}"
    if column.places == 0:
        return f"(CASE {clamped} ELSE {rounded} END)"
    error = double_literal(2.0**-50)
    is_clear = f"abs({y} - floor({y}) - 0.5::DOUBLE) > abs({y}) * {error}"
    exact = f"{functions}_double({x})"
    return f"(CASE {clamped} WHEN {is_clear} THEN {rounded} ELSE {exact} END)"


def _least_double_from(bound: Fraction) -> float:
    """Return the least double that is at least a bound."""
    number = float(bound)
    return number if Fraction(number) >= bound else math.nextafter(number, math.inf)


def _number_text(column: NumberColumn, text: str, functions: str) -> str:
    """Return the SQL of a text: SQL reads the common forms, the exact function all others."""
    places = column.places
    short, scaled = f"[+-]?[0-9]{{1,{_DIGITS}}}", f"TRY_CAST({text} AS BIGINT)"
    if places:
        # A whole number below 10^15 of last places: cast and product have a relative error of
        # 2^-53 each, so the product is within 1/4 of that number.
        short = f"[+-]?[0-9]{{1,{_DOUBLE_DIGITS - places}}}([.][0-9]{{1,{places}}})?"
        product = f"TRY_CAST({text} AS DOUBLE) * {double_literal(float(10**places))}"
        scaled = f"TRY_CAST(round({product}) AS BIGINT)"
    is_long = f"regexp_full_match({text}, '[+-]?[0-9]{{1,15}}([.][0-9]{{1,{_DIGITS}}})?')"
    parts = f"split_part({text}, '.', 1) || rpad(split_part({text}, '.', 2), {_DIGITS}, '0')"
    # Of more places than a column may have, so half a last place is whole. `//` rounds to 0, and
    # the offset, above every such number, makes it round down.
    unit, offset = 10 ** (_DIGITS - places), 10 ** (16 + places)
    shifted = f"TRY_CAST({parts} AS HUGEINT) + {integer_literal(unit // 2 + offset * unit)}"
    rounded = f"({shifted}) // {integer_literal(unit)} - {integer_literal(offset)}"
    return (
        f"(CASE WHEN {text} IS NULL THEN NULL::{number_type(column)} "
        f"WHEN regexp_full_match({text}, '{short}') THEN {clamp_sql(column, scaled)} "
        f"WHEN {is_long} THEN {clamp_sql(column, rounded)} ELSE {functions}_text({text}) END)"
    )


def _text(reference: str) -> str:
    """Return the SQL of a text that is compared byte by byte, whatever its column's collation."""
    return f"({reference}::VARCHAR COLLATE C)"


def _category(column: CategoryColumn, cell: SourceColumn | None) -> str:
    categories = ", ".join(map(text_literal, column.categories))
    return f"enum_code(TRY_CAST({identifier_sql(cell)} AS ENUM({categories})))::BIGINT"


def _boolean(cell: SourceColumn | None) -> str:
    if cell is None:
        return "NULL::BIGINT"
    x = cell.reference
    if cell.type_id == "boolean":
        return f"({x}::BIGINT)"
    if cell.type_id == CSV_TEXT:
        # Programs write TRUE, True or 1, and a text has no other form here.
        text = f"lower({_text(x)})"
        is_true, is_false = f"{text} IN ('true', '1')", f"{text} IN ('false', '0')"
        return f"(CASE WHEN {is_true} THEN 1::BIGINT WHEN {is_false} THEN 0::BIGINT END)"
    if cell.type_id in _TEXTS:
        return f"(CASE {_text(x)} WHEN 'true' THEN 1::BIGINT WHEN 'false' THEN 0::BIGINT END)"
    if cell.type_id == _BIGNUM:
        x = f"({x}::VARCHAR)"
        return f"(CASE {x} WHEN '1' THEN 1::BIGINT WHEN '0' THEN 0::BIGINT END)"
    if is_whole(cell) or cell.type_id in _WIDE or cell.type_id in _FLOATS:
        return f"(CASE WHEN {x} = 1 THEN 1::BIGINT WHEN {x} = 0 THEN 0::BIGINT END)"
    return "NULL::BIGINT"
