"""A filter as SQL over the integers that `streams.sources.cells` makes of cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from accountant.questions.filter_expression import (
    Conjunction,
    Disjunction,
    FilterExpression,
    ListTest,
    MissingTest,
    Negation,
    Sign,
    ValueTest,
)
from accountant.questions.schema import Column, NumberColumn, TimeColumn
from accountant.questions.schema_values import SchemaValue
from streams.sources.cells import sql_value
from streams.sources.group_sql import day_sql
from streams.sources.quoted import integer_literal

ColumnNames = Mapping[str, tuple[Column, str]]
"""Of each column of a schema: its declaration, and what SQL calls its value."""


def filter_sql(expression: FilterExpression, columns: ColumnNames) -> str:
    """Return SQL that is true or false, never NULL, for each row."""
    match expression:
        case Conjunction(parts):
            return "(" + " AND ".join(filter_sql(part, columns) for part in parts) + ")"
        case Disjunction(parts):
            return "(" + " OR ".join(filter_sql(part, columns) for part in parts) + ")"
        case Negation(part):
            return f"(NOT {filter_sql(part, columns)})"
        case MissingTest(name, negated):
            return f"({columns[name][1]} IS {'NOT ' if negated else ''}NULL)"
        case ListTest(name, values, negated):
            return _list_test(*_compared(*columns[name]), values, negated=negated)
        case ValueTest(name, sign, value):
            return _value_test(*_compared(*columns[name]), sign, value)


def _compared(column: Column, value: str) -> tuple[Column, str]:
    """Return what is compared with a literal: of a time, its date."""
    return column, day_sql(value) if isinstance(column, TimeColumn) else value


def _list_test(
    column: Column, value: str, literals: tuple[SchemaValue, ...], *, negated: bool
) -> str:
    inside = [
        integer_literal(sql_value(column, literal))
        for literal in literals
        if _position(column, literal).denominator == 1
    ]
    found = f"{value} IN ({', '.join(inside)})" if inside else "FALSE"
    return f"({value} IS NOT NULL AND {'NOT ' if negated else ''}{found})"


def _position(column: Column, literal: SchemaValue) -> Fraction:
    """Return a literal on the scale of the column's integers; it may be between two of them."""
    if isinstance(column, NumberColumn):
        assert isinstance(literal, Fraction)
        return literal / column.grid
    return Fraction(sql_value(column, literal))


def _value_test(column: Column, value: str, sign: Sign, literal: SchemaValue) -> str:
    position = _position(column, literal)
    match sign:
        case "=" | "!=" if position.denominator != 1:
            test = "FALSE" if sign == "=" else "TRUE"
        case "=" | "!=":
            test = f"{value} {sign} {integer_literal(position.numerator)}"
        case "<" | ">=":
            test = f"{value} {sign} {integer_literal(math.ceil(position))}"
        case ">" | "<=":
            test = f"{value} {sign} {integer_literal(math.floor(position))}"
    return f"({value} IS NOT NULL AND {test})"
