"""What the declared rules make of small tables: the reference for whatever runs questions.

Statistics are exact. Whatever the rows hold, there is a result and no error: nothing here depends
on more than each cell, each row, and each unit's own rows.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from accountant.questions.filter_expression import literal_text, matches
from accountant.questions.parts import Groups, Vector
from accountant.questions.plan import plan_of
from accountant.questions.question import CheckedQuestion
from accountant.questions.schema import Schema
from accountant.questions.schema_values import SchemaValue, identifier, read_cell
from accountant.questions.zone_rules import UTC, ZoneRules


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """One row as the schema reads it: its unit, "" where each row is one, and its values."""

    unit: str
    values: dict[str, SchemaValue | None]


def evaluate(
    checked: CheckedQuestion,
    rows: Iterable[Mapping[str, object]],
    *,
    key: bytes,
    zone: ZoneRules = UTC,
) -> tuple[Vector, ...]:
    """Return the exact statistics of a question, in the order of its plan and its draws.

    A vector has a number for each group; the scores of a choice have one for each candidate of
    each group, one group after another.

    Args:
        rows: cells by the source's column names; a column that a row lacks is missing there.
        key: of the hash that chooses a unit's rows; whoever owns the data keeps it secret.
        zone: the rules of the schema's zone.
    Raises: ValueError: they are those of another zone.
    """
    if zone.name != (UTC.name if checked.schema.zone is UNSET else checked.schema.zone):
        raise ValueError(f"the schema's zone is {checked.schema.zone}, not {zone.name}")
    read = [each for row in rows if (each := _read_row(checked.schema, row, zone)) is not None]
    groups = list[Groups]()  # of each statistic: which rows it has depends on its column
    for alone in checked.alone:
        relevant = [row for row in read if _is_relevant(alone, row)]
        groups.append(_grouped(alone, bound_contributions(alone, relevant, key=key)))
    parts = plan_of(checked).parts
    return tuple([each.part.exact(each.scope, groups[each.owner]) for each in parts])


def _read_row(schema: Schema, row: Mapping[str, object], zone: ZoneRules) -> SchemaRow | None:
    """Return a row as the schema reads it, None if it has no unit."""
    unit: str | None = ""
    if schema.unit is not UNSET:
        unit = identifier(row.get(schema.unit.column))
    if unit is None:
        return None
    values = {each.name: read_cell(each, row.get(each.name), zone) for each in schema.columns}
    return SchemaRow(unit, values)


def _is_relevant(checked: CheckedQuestion, row: SchemaRow) -> bool:
    """Tell whether a row is in the filter, in a group, and has a value for the statistic."""
    needed = [each.column.name for each in checked.groups]
    if checked.column is not None:
        needed.append(checked.column.name)
    if any(row.values[name] is None for name in needed):
        return False
    return checked.filter is None or matches(checked.filter, row.values)


def bound_contributions(
    checked: CheckedQuestion, rows: Iterable[SchemaRow], *, key: bytes
) -> list[SchemaRow]:
    """Return at most `checked.rows` rows of each unit, so many in each group, of least keyed hash.

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
        in_group, entered = Counter[int](), 0
        for _, _, row in of_one:
            place = checked.group_place(row.values)
            if entered < checked.rows and in_group[place] < checked.rows_per_group:
                bounded.append(row)
                in_group[place], entered = in_group[place] + 1, entered + 1
    return bounded


def row_content(row: SchemaRow) -> bytes:
    """Return what the hash of a row is of: its unit and its values, columns in schema order."""
    values = [None if value is None else literal_text(value) for value in row.values.values()]
    return msgspec.json.encode([row.unit, *values])


def content_digest(content: bytes, *, key: bytes) -> bytes:
    """Return the hash that chooses a unit's rows: those with the least ones enter."""
    return hmac.digest(key, content, hashlib.sha256)


def _grouped(checked: CheckedQuestion, rows: list[SchemaRow]) -> Groups:
    """Return the values of the statistic's column in each group."""
    groups: list[list[SchemaValue]] = [[] for _ in range(checked.cells)]
    for row in rows:
        value = checked.statistic_value(row.values)
        assert value is not None, "a row without a value is not relevant"
        groups[checked.group_place(row.values)].append(value)
    return groups
