"""The schema of a dataset: what its owner declares, and so what no question learns from the data.

A schema has one canonical form in bytes, `encode_schema`. Everything that derives a claim reads the
schema and the question alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.errors import RequestInvalid
from accountant.foreign_text import CONTROL
from accountant.policy import Neighbours
from accountant.questions.decimals import MAX_PLACES, parse_signed_decimal
from accountant.suggest import did_you_mean

MAX_COLUMNS: Final = 100
MAX_CATEGORIES: Final = 1_000
MAX_CATEGORY: Final = 100
MAX_ROWS: Final = 1_000_000
MAX_SIZE: Final = 10**10
MAX_SCHEMA_BYTES: Final = 32_768
MAX_CANDIDATES: Final = 10_000
"""Candidates of a quantile, and cells of a question."""

SourceKind = Literal["parquet", "csv", "duckdb", "postgresql"]
RESERVED: Final = frozenset(
    (
        *("and", "or", "not", "in", "is", "missing", "true", "false"),
        *("where", "by", "rows", "rows_per_group"),
    )
)
"""Words of the grammar, in lower or upper case: a column of such a name is quoted."""

_SHOWN: Final = 10
"""Columns that a hint names."""
MAX_NAME: Final = 63
WORD_PATTERN: Final = rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}"
_WORD = re.compile(WORD_PATTERN)
DATE_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE = re.compile(DATE_PATTERN)
ZONE_PATTERN: Final = r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}"
_ZONE = re.compile(ZONE_PATTERN)
_WORD_RULE: Final = (
    f"must be 1 to {MAX_NAME} letters, digits or '_', the first no digit, and no word of the "
    "grammar"
)
_NAME_RULE: Final = f"must be 1 to {MAX_NAME} characters, none of them a control character"


class _SchemaFields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Base of what a schema is made of: a field at its default is left out."""


class DataSource(_SchemaFields, frozen=True):
    """Where the rows are.

    Attributes:
        kind: the format, or the database.
        name: what the reader's settings call it; neither a path nor an address.
    """

    kind: SourceKind
    name: str


class NumberColumn(_SchemaFields, frozen=True, tag_field="type", tag="number"):
    """Numbers between declared bounds, on a declared grid.

    Attributes:
        lower, upper: bounds; a number outside them is read as the nearer one.
        places: digits after the point, 0 to 12; more digits are rounded, half up.
        step: distance of the candidates of a quantile, from `lower` on; by default the grid's.
        missing: what a missing value is read as; left out, it stays missing.
    """

    name: str
    lower: str
    upper: str
    places: int = 0
    step: str | UnsetType = UNSET
    missing: str | UnsetType = UNSET

    @property
    def grid(self) -> Fraction:
        """The distance between two neighbouring values."""
        return Fraction(1, 10**self.places)

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """The least and the largest value."""
        return Fraction(self.lower), Fraction(self.upper)

    @property
    def step_size(self) -> Fraction:
        """The distance between two candidates of a quantile."""
        return self.grid if self.step is UNSET else Fraction(self.step)

    @property
    def candidates(self) -> int:
        """How many candidates a quantile has."""
        lower, upper = self.bounds
        return int((upper - lower) // self.step_size) + 1


class CategoryColumn(_SchemaFields, frozen=True, tag_field="type", tag="category"):
    """Texts of a declared list; any other value is missing.

    Attributes:
        categories: the list, in the order in which groups are shown.
        missing: the category that a missing value is read as; left out, it stays missing.
    """

    name: str
    categories: tuple[str, ...]
    missing: str | UnsetType = UNSET


class BooleanColumn(_SchemaFields, frozen=True, tag_field="type", tag="boolean"):
    """True or false; any other value is missing.

    Attributes:
        missing: what a missing value is read as; left out, it stays missing.
    """

    name: str
    missing: bool | UnsetType = UNSET


class CalendarColumn(_SchemaFields, frozen=True):
    """Base of columns whose values have a date; others than from first to last are missing.

    Attributes:
        first, last: dates such as `2026-03-01`, on the clocks of the schema's zone.
        missing: the date that a missing value is read as; left out, it stays missing.
    """

    name: str
    first: str
    last: str
    missing: str | UnsetType = UNSET

    @property
    def dates(self) -> tuple[date, date]:
        """The first and the last date."""
        return date.fromisoformat(self.first), date.fromisoformat(self.last)


class DateColumn(CalendarColumn, frozen=True, tag_field="type", tag="date"):
    """Dates. A time is read as its date on the clocks of the schema's zone."""


class TimeColumn(CalendarColumn, frozen=True, tag_field="type", tag="time"):
    """Times: what the clocks of the schema's zone show, to the second. A date is its midnight."""


Column = NumberColumn | CategoryColumn | BooleanColumn | DateColumn | TimeColumn


class UnitColumn(_SchemaFields, frozen=True):
    """What one neighbour differs in.

    Attributes:
        column: names the unit of each row; a row without one is dropped.
        rows: the most rows of a unit that enter a statistic.
    """

    column: str
    rows: int


class Schema(_SchemaFields, frozen=True):
    """What is declared about the rows of a dataset.

    Attributes:
        source: where they are.
        columns: those that questions may name.
        neighbours: the neighbouring relation that claims are derived for.
        unit: left out, each row is a unit of its own.
        zone: whose clocks dates and times are read on, such as `Europe/Berlin`; left out, UTC.
        size: how many rows enter a question without a filter, as the owner states it, whatever
            the source has; left out, such a count is read from the data and costs.
    """

    source: DataSource
    columns: tuple[Column, ...]
    neighbours: Neighbours
    unit: UnitColumn | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    size: int | UnsetType = UNSET

    @property
    def rows_per_unit(self) -> int:
        """The most rows of a unit that enter a statistic."""
        return 1 if self.unit is UNSET else self.unit.rows

    def find(self, name: str, *, field: str) -> Column:
        """Return the column of a name.

        Raises: RequestInvalid: there is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        names = [column.name for column in self.columns]
        raise RequestInvalid(
            field, "must name a column of the schema", name, hint=column_hint(name, names)
        )


def column_hint(name: str, names: Sequence[str]) -> Callable[[], str]:
    """Return a function that names the column that was perhaps meant, else those that there are."""

    def hint() -> str:
        shown = ", ".join(map(name_text, names[:_SHOWN])) + (", ..." if names[_SHOWN:] else "")
        return did_you_mean(name, names)() or f"the schema's columns are {shown}"

    return hint


def encode_schema(schema: Schema) -> bytes:
    """Return the canonical bytes of a schema: equal schemas have equal bytes."""
    return msgspec.json.encode(schema)


decode_schema: Final = lru_cache(maxsize=256)(msgspec.json.Decoder(Schema).decode)
"""Returns the schema of its canonical bytes, often asked for."""


def check_schema(schema: Schema) -> Schema:
    """Return the schema if each of its fields obeys its rule.

    Raises: RequestInvalid: naming field, rule and value.
    """
    check_source_name("source.name", schema.source.name)
    if not 1 <= len(schema.columns) <= MAX_COLUMNS:
        rule = f"must be 1 to {MAX_COLUMNS} columns"
        raise RequestInvalid("columns", rule, f"{len(schema.columns)} columns")
    taken = set[str]()
    for i, column in enumerate(schema.columns):
        try:
            _check_column(column)
            _check_is_new(column.name, taken)
        except RequestInvalid as error:
            raise error.under(f"columns[{i}]") from None
    if schema.unit is not UNSET:
        _check_name("unit.column", schema.unit.column)
        if schema.unit.column in taken:
            rule = "must be no column that questions may name"
            raise RequestInvalid("unit.column", rule, schema.unit.column)
        if not 1 <= schema.unit.rows <= MAX_ROWS:
            rule = f"must be between 1 and {MAX_ROWS}"
            raise RequestInvalid("unit.rows", rule, schema.unit.rows)
    if schema.zone is not UNSET and not (
        len(schema.zone) <= MAX_NAME and _ZONE.fullmatch(schema.zone)
    ):
        # Whether there is such a zone is for whoever has its rules: a ledger has none.
        raise RequestInvalid("zone", "must be a name such as Europe/Berlin", schema.zone)
    if schema.size is not UNSET and not 1 <= schema.size <= MAX_SIZE:
        raise RequestInvalid("size", f"must be between 1 and {MAX_SIZE}", schema.size)
    length = len(encode_schema(schema))
    if length > MAX_SCHEMA_BYTES:
        rule = f"must be at most {MAX_SCHEMA_BYTES} bytes"
        raise RequestInvalid("schema", rule, f"{length} bytes")
    return schema


def check_source_name(field: str, text: str) -> None:
    """Check what may name a source, in a schema and in the file of sources.

    Raises: RequestInvalid.
    """
    if not is_word(text):
        raise RequestInvalid(field, _WORD_RULE, text)


def _check_is_new(name: str, taken: set[str]) -> None:
    if name in taken:
        raise RequestInvalid("name", "must name each column once", name)
    taken.add(name)


def is_column_name(text: str) -> bool:
    """Tell whether a schema may name a column so."""
    return 1 <= len(text) <= MAX_NAME and CONTROL.search(text) is None


def name_text(name: str) -> str:
    """Return a column's name as a question has it: quoted, unless it is a word."""
    return name if is_word(name) else '"' + name.replace('"', '""') + '"'


def is_word(text: str) -> bool:
    """Tell whether a text is a name that needs no quotes."""
    return _WORD.fullmatch(text) is not None and text.lower() not in RESERVED


def _check_name(field: str, text: str) -> None:
    if not is_column_name(text):
        raise RequestInvalid(field, _NAME_RULE, text)


def _check_column(column: Column) -> None:
    _check_name("name", column.name)
    if isinstance(column, NumberColumn):
        _check_number(column)
    elif isinstance(column, CategoryColumn):
        _check_categories(column)
    elif isinstance(column, CalendarColumn):
        _check_dates(column)


def _check_number(column: NumberColumn) -> None:
    if not 0 <= column.places <= MAX_PLACES:
        raise RequestInvalid("places", f"must be between 0 and {MAX_PLACES}", column.places)
    lower, upper = (_on_grid(column, name) for name in ("lower", "upper"))
    if lower >= upper:
        raise RequestInvalid("upper", "must be greater than lower", column.upper)
    if column.missing is not UNSET and not lower <= _on_grid(column, "missing") <= upper:
        raise RequestInvalid("missing", "must be between lower and upper", column.missing)
    if column.step is not UNSET and _on_grid(column, "step") <= 0:
        raise RequestInvalid("step", "must be greater than 0", column.step)


def _on_grid(column: NumberColumn, field: str) -> Fraction:
    return on_grid(column, getattr(column, field), field=field)


def on_grid(column: NumberColumn, text: str, *, field: str) -> Fraction:
    """Return a number of a text. Raises: RequestInvalid: it has more places than the column."""
    value = parse_signed_decimal(text, field=field)
    if value % column.grid:
        rule = f"must have at most {column.places} digits after the point, as `places` says"
        raise RequestInvalid(field, rule, text)
    return value


def parse_date(text: str, *, field: str) -> date:
    """Return the date of a text. Raises: RequestInvalid: it is none such as 2026-03-01."""
    try:
        if _DATE.fullmatch(text) is None:
            raise ValueError("another form")
        return date.fromisoformat(text)
    except ValueError:
        raise RequestInvalid(field, "must be a date such as 2026-03-01", text) from None


def _check_dates(column: CalendarColumn) -> None:
    first, last = (parse_date(getattr(column, name), field=name) for name in ("first", "last"))
    if first > last:
        raise RequestInvalid("last", "must not be before first", column.last)
    if (
        column.missing is not UNSET
        and not first <= parse_date(column.missing, field="missing") <= last
    ):
        raise RequestInvalid("missing", "must be from first to last", column.missing)


def _check_categories(column: CategoryColumn) -> None:
    if not 1 <= len(column.categories) <= MAX_CATEGORIES:
        rule = f"must be 1 to {MAX_CATEGORIES} texts"
        raise RequestInvalid("categories", rule, f"{len(column.categories)} texts")
    for i, text in enumerate(column.categories):
        if not 1 <= len(text) <= MAX_CATEGORY or CONTROL.search(text):
            rule = f"must be 1 to {MAX_CATEGORY} characters, none of them a control character"
            raise RequestInvalid(f"categories[{i}]", rule, text)
    if len(set(column.categories)) < len(column.categories):
        rule = "must hold each text once"
        raise RequestInvalid("categories", rule, f"{len(column.categories)} texts")
    if column.missing is not UNSET and column.missing not in column.categories:
        hint = did_you_mean(column.missing, column.categories)
        raise RequestInvalid("missing", "must be one of the categories", column.missing, hint=hint)
