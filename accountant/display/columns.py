"""The columns of a schema in words, and what can be asked of each: never from the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from accountant.display.numbers import counted
from accountant.display.quantile_steps import least_step
from accountant.questions.column_questions import questions_of
from accountant.questions.schema import (
    MAX_CANDIDATES,
    BooleanColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    Schema,
    TimeColumn,
)

_SHOWN: Final = 5
HEAD: Final = ("column", "type", "values", "what can be asked")


class ColumnView(msgspec.Struct, frozen=True, kw_only=True):
    """A column, and what can be asked of it.

    Attributes:
        column: as the schema declares it.
        values: in words: bounds, categories, or first and last date.
        questions: examples, which run as they are written.
    """

    column: Column
    values: str
    questions: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Its row of a table with `HEAD`."""
        kind = str(self.column.__struct_config__.tag)
        return self.column.name, kind, self.values, "; ".join(self.questions)


def column_views(schema: Schema) -> tuple[ColumnView, ...]:
    """Return the columns of a schema in their order."""
    return tuple(
        [
            ColumnView(column=each, values=_values(each, schema), questions=questions_of(each))
            for each in schema.columns
        ]
    )


def schema_words(schema: Schema) -> str:
    """Return what holds for all columns: whose rows they are, and how many of them enter."""
    if schema.unit is UNSET:
        return "each row counts as one unit"
    return f"at most {counted(schema.unit.rows, 'row')} of each {schema.unit.column} enter"


def _values(column: Column, schema: Schema) -> str:
    missing = column.missing
    read_as = [] if missing is UNSET else [f"a missing one as {_cell(missing)}"]
    return ", ".join([*_range(column, schema), *read_as])


def _cell(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _range(column: Column, schema: Schema) -> Iterator[str]:
    if isinstance(column, NumberColumn):
        yield f"{column.lower} to {column.upper}"
        if column.places:
            yield f"{column.places} digits after the point"
        if column.candidates > MAX_CANDIDATES:
            yield f"no quantiles: its schema has no step of {least_step(column)} or more"
        elif column.step is not UNSET:
            yield f"quantiles in steps of {column.step}"
    elif isinstance(column, CategoryColumn):
        yield _listed(column.categories)
    elif isinstance(column, BooleanColumn):
        yield "true or false"
    else:
        yield f"{column.first} to {column.last}"
        if schema.zone is not UNSET or isinstance(column, TimeColumn):
            yield f"on the clocks of {schema.zone or 'UTC'}"


def _listed(categories: Sequence[str]) -> str:
    """Return the first categories, and how many there are."""
    if len(categories) <= _SHOWN:
        return ", ".join(categories)
    return f"{', '.join(categories[:_SHOWN])}, ... ({len(categories):,} categories)"
