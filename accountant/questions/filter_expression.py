"""Filter expressions: their parts, their canonical text, and which rows they match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Final, Literal

from accountant.questions.decimals import decimal_text
from accountant.questions.local_times import LocalTime
from accountant.questions.schema import name_text
from accountant.questions.schema_values import SchemaValue

Sign = Literal["=", "!=", "<", "<=", ">", ">="]
SIGNS: Final[tuple[Sign, ...]] = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class ValueTest:
    """A column's value beside a literal of its type; a time's date beside a date."""

    column: str
    sign: Sign
    value: SchemaValue


@dataclass(frozen=True, slots=True)
class ListTest:
    """Whether a column's value is in a list, or `negated`, is a value that is not."""

    column: str
    values: tuple[SchemaValue, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class MissingTest:
    """Whether a column's value is missing, or `negated`, is not."""

    column: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Negation:
    """True where its part is false."""

    part: FilterExpression


@dataclass(frozen=True, slots=True)
class Conjunction:
    """True where all of its two or more parts are."""

    parts: tuple[FilterExpression, ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """True where any of its two or more parts is."""

    parts: tuple[FilterExpression, ...]


FilterExpression = ValueTest | ListTest | MissingTest | Negation | Conjunction | Disjunction


def matches(expression: FilterExpression, row: Mapping[str, SchemaValue | None]) -> bool:
    """Tell whether a row of the schema's values is in the filter.

    Each test of a missing value is false, `!=` and `not in` included; `is missing` alone is true.
    """
    match expression:
        case Conjunction(parts):
            return all(matches(part, row) for part in parts)
        case Disjunction(parts):
            return any(matches(part, row) for part in parts)
        case Negation(part):
            return not matches(part, row)
        case MissingTest(column, negated):
            return (row[column] is None) is not negated
        case ListTest(column, values, negated):
            value = _comparable(row[column])
            return value is not None and (value in values) is not negated
        case ValueTest(column, sign, other):
            value = _comparable(row[column])
            return value is not None and _compare(value, sign, other)


def _comparable(value: SchemaValue | None) -> SchemaValue | None:
    return value.day if isinstance(value, LocalTime) else value


def _compare(value: SchemaValue, sign: Sign, other: SchemaValue) -> bool:
    if sign == "=":
        return value == other
    if sign == "!=":
        return value != other
    if isinstance(value, date) and isinstance(other, date):
        return _is_in_order(value.toordinal(), sign, other.toordinal())
    # The parser allows an order for numbers and dates alone.
    assert isinstance(value, Fraction)
    assert isinstance(other, Fraction)
    return _is_in_order(value, sign, other)


def _is_in_order(value: Fraction | int, sign: Sign, other: Fraction | int) -> bool:
    match sign:
        case "<":
            return value < other
        case "<=":
            return value <= other
        case ">":
            return value > other
        case _:
            return value >= other


def filter_text(expression: FilterExpression) -> str:
    """Return the canonical text, from which the parser makes an equal expression."""
    match expression:
        case Disjunction(parts):
            return " or ".join(map(filter_text, parts))
        case Conjunction(parts):
            return " and ".join(_parenthesize(part, Disjunction) for part in parts)
        case Negation(part):
            return "not " + _parenthesize(part, Disjunction, Conjunction)
        case MissingTest(column, negated):
            return f"{name_text(column)} is {'not ' if negated else ''}missing"
        case ListTest(column, values, negated):
            inner = ", ".join(map(literal_text, values))
            return f"{name_text(column)} {'not ' if negated else ''}in ({inner})"
        case ValueTest(column, sign, value):
            return f"{name_text(column)} {sign} {literal_text(value)}"


def _parenthesize(part: FilterExpression, *looser: type[FilterExpression]) -> str:
    text = filter_text(part)
    return f"({text})" if isinstance(part, looser) else text


def columns_of(expression: FilterExpression) -> set[str]:
    """Return the names of the columns that a filter tests."""
    match expression:
        case Conjunction(parts) | Disjunction(parts):
            return set[str]().union(*map(columns_of, parts))
        case Negation(part):
            return columns_of(part)
        case MissingTest(name) | ListTest(name) | ValueTest(name):
            return {name}


def literal_text(value: SchemaValue) -> str:
    """Return the text of a literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        return decimal_text(value)
    if isinstance(value, date | LocalTime):
        return f"'{value}'"
    return "'" + value.replace("'", "''") + "'"
