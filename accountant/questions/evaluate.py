"""What the declared rules make of small tables: the reference for whatever runs questions.

Statistics are exact. Whatever the rows hold, there is a result and no error: nothing here depends
on more than each cell, each row, and each unit's own rows.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import msgspec
from msgspec import UNSET

from accountant.questions.filter_expression import literal_text, matches
from accountant.questions.question import (
    CheckedQuestion,
    MeanQuestion,
    QuantileQuestion,
    SumQuestion,
    TopQuestion,
    VarianceQuestion,
)
from accountant.questions.schema import CategoryColumn, NumberColumn, Schema
from accountant.questions.schema_values import SchemaValue, identifier, read_cell

Vector = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """One row as the schema reads it: its unit, "" where each row is one, and its values."""

    unit: str
    values: dict[str, SchemaValue | None]


def evaluate(
    checked: CheckedQuestion, rows: Iterable[Mapping[str, object]], *, key: bytes
) -> tuple[Vector, ...]:
    """Return the exact statistics of a question, in the order of `statistics_of`.

    A vector has a number for each group; the scores of a choice have one for each candidate of
    each group, one group after another.

    Args:
        rows: cells by the source's column names; a column that a row lacks is missing there.
        key: of the hash that chooses a unit's rows; whoever owns the data keeps it secret.
    """
    read = (_read_row(checked.schema, row) for row in rows)
    relevant = [row for row in read if row is not None and _is_relevant(checked, row)]
    return _aggregate(checked, bound_contributions(checked, relevant, key=key))


def _read_row(schema: Schema, row: Mapping[str, object]) -> SchemaRow | None:
    """Return a row as the schema reads it, None if it has no unit."""
    unit: str | None = ""
    if schema.unit is not UNSET:
        unit = identifier(row.get(schema.unit.column))
    if unit is None:
        return None
    values = {each.name: read_cell(each, row.get(each.name)) for each in schema.columns}
    return SchemaRow(unit, values)


def _is_relevant(checked: CheckedQuestion, row: SchemaRow) -> bool:
    """Tell whether a row is in the filter, in a group, and has a value for the statistic."""
    needed = [column.name for column in checked.groups]
    if checked.column is not None:
        needed.append(checked.column.name)
    if any(row.values[name] is None for name in needed):
        return False
    return checked.filter is None or matches(checked.filter, row.values)


def bound_contributions(
    checked: CheckedQuestion, rows: Iterable[SchemaRow], *, key: bytes
) -> list[SchemaRow]:
    """Return at most `checked.rows` rows of each unit: those of the least keyed hash.

    Which of them depends on that unit's rows alone, never on the order of the rows. Equal rows
    have equal hashes, and it does not matter which of them stays.
    """
    if checked.schema.unit is UNSET:
        return list(rows)
    of_unit = defaultdict[str, list[tuple[bytes, bytes, SchemaRow]]](list)
    for row in rows:
        content = row_content(row)
        digest = content_digest(content, key=key)
        of_unit[row.unit].append((digest, content, row))
    bounded = list[SchemaRow]()
    for of_one in of_unit.values():
        of_one.sort(key=lambda each: each[:2])
        bounded += [row for _, _, row in of_one[: checked.rows]]
    return bounded


def row_content(row: SchemaRow) -> bytes:
    """Return what the hash of a row is of: its unit and its values, columns in schema order."""
    values = [None if value is None else literal_text(value) for value in row.values.values()]
    return msgspec.json.encode([row.unit, *values])


def content_digest(content: bytes, *, key: bytes) -> bytes:
    """Return the hash that chooses a unit's rows: those with the least ones enter."""
    return hmac.digest(key, content, hashlib.sha256)


def _aggregate(checked: CheckedQuestion, rows: list[SchemaRow]) -> tuple[Vector, ...]:
    names = [column.name for column in checked.groups]
    in_group: dict[tuple[SchemaValue | None, ...], list[SchemaRow]] = {
        group: [] for group in checked.each_group()
    }
    for row in rows:
        in_group[tuple(row.values[name] for name in names)].append(row)
    groups = list(in_group.values())
    question, column = checked.question, checked.column
    count = tuple(Fraction(len(group)) for group in groups)
    if not isinstance(column, NumberColumn):
        if isinstance(question, TopQuestion) and isinstance(column, CategoryColumn):
            return (_category_counts(column, groups),)
        return (count,)
    values = [[_number(row, column) for row in group] for group in groups]
    sums = tuple(sum(group, Fraction(0)) for group in values)
    match question:
        case QuantileQuestion():
            return (_quantile_scores(column, Fraction(question.fraction), values),)
        case SumQuestion():
            return (sums,)
        case MeanQuestion():
            return (count, sums)
        case VarianceQuestion():
            squares = tuple(sum((value**2 for value in group), Fraction(0)) for group in values)
            return (count, sums, squares)
    raise TypeError(f"no statistic of numbers: {type(question).__name__}")


def _number(row: SchemaRow, column: NumberColumn) -> Fraction:
    value = row.values[column.name]
    assert isinstance(value, Fraction), "`_is_relevant` lets no other row in"
    return value


def _category_counts(column: CategoryColumn, groups: list[list[SchemaRow]]) -> Vector:
    return tuple(
        Fraction(sum(row.values[column.name] == category for row in group))
        for group in groups
        for category in column.categories
    )


def _quantile_scores(
    column: NumberColumn, fraction: Fraction, groups: list[list[Fraction]]
) -> Vector:
    """Return -|(1 - a) below - a above| of each candidate: 0 at the quantile a, less elsewhere."""
    scores = list[Fraction]()
    for group in groups:
        for i in range(column.candidates):
            candidate = Fraction(column.lower) + i * column.step_size
            below = sum(value < candidate for value in group)
            above = sum(value > candidate for value in group)
            scores.append(-abs((1 - fraction) * below - fraction * above))
    return tuple(scores)
