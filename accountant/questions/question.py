"""Questions: the wire types of what an analyst asks, and their check against a schema."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.errors import RequestInvalid
from accountant.questions.decimals import parse_signed_decimal
from accountant.questions.filter_expression import FilterExpression, columns_of, filter_text
from accountant.questions.filter_parser import parse_filter
from accountant.questions.schema import (
    MAX_CANDIDATES,
    BooleanColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    Schema,
)
from accountant.questions.schema_values import SchemaValue
from accountant.questions.tokens import MAX_TEXT

MAX_GROUPED: Final = 3
MAX_SELECTIONS: Final = 100


class _QuestionFields(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="ask",
):
    """Base of every question.

    Attributes:
        where: the filter, "" for every row.
        by: columns of categories or of true and false; there is an answer for each group.
        rows: the most rows of a unit that enter the statistic, at most the schema's.
    """

    where: str = ""
    by: tuple[str, ...] = ()
    rows: int | UnsetType = UNSET
    column_kind: ClassVar[type[NumberColumn | CategoryColumn] | None] = None


class CountQuestion(_QuestionFields, frozen=True, tag="count"):
    """How many rows there are."""


class SumQuestion(_QuestionFields, frozen=True, tag="sum"):
    """The sum of a column of numbers."""

    column: str
    column_kind = NumberColumn


class MeanQuestion(_QuestionFields, frozen=True, tag="mean"):
    """The mean of a column of numbers: a sum and a count."""

    column: str
    column_kind = NumberColumn


class VarianceQuestion(_QuestionFields, frozen=True, tag="variance"):
    """The variance of a column of numbers: a sum of squares, a sum and a count."""

    column: str
    column_kind = NumberColumn


class QuantileQuestion(_QuestionFields, frozen=True, tag="quantile"):
    """A quantile of a column of numbers, one of its declared candidates.

    Attributes:
        fraction: which part of the rows is below it, 0 to 1; 0.5 is the median.
    """

    column: str
    fraction: str
    column_kind = NumberColumn


class HistogramQuestion(_QuestionFields, frozen=True, tag="histogram"):
    """How many rows each declared category has."""

    column: str
    column_kind = CategoryColumn


class TopQuestion(_QuestionFields, frozen=True, tag="top"):
    """The most frequent of the declared categories, without their counts.

    Attributes:
        most: how many of them.
    """

    column: str
    most: int
    column_kind = CategoryColumn


Question = (
    CountQuestion
    | SumQuestion
    | MeanQuestion
    | VarianceQuestion
    | QuantileQuestion
    | HistogramQuestion
    | TopQuestion
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuestion:
    """A question that a schema allows.

    Attributes:
        question: with its filter in canonical text.
        schema: which allows it.
        filter: None for every row.
        column: of the statistic, None of a count.
        groups: columns whose values set the answers apart; of a histogram its own is the first.
        rows: the most rows of a unit that enter the statistic.
    """

    question: Question
    schema: Schema
    filter: FilterExpression | None
    column: Column | None
    groups: tuple[CategoryColumn | BooleanColumn, ...]
    rows: int

    @property
    def cells(self) -> int:
        """How many groups there are."""
        return math.prod(len(group_values(column)) for column in self.groups)

    @property
    def column_names(self) -> set[str]:
        """The names of the columns that the question reads, its filter included."""
        names = {column.name for column in self.groups}
        if self.column is not None:
            names.add(self.column.name)
        return names if self.filter is None else names | columns_of(self.filter)

    def each_group(self) -> Iterator[tuple[SchemaValue, ...]]:
        """Yield the values of each group, in the order of the answers."""
        return product(*map(group_values, self.groups))


def group_values(column: CategoryColumn | BooleanColumn) -> tuple[str | bool, ...]:
    """Return the declared values of a column, in their order."""
    return column.categories if isinstance(column, CategoryColumn) else (False, True)


def encode_question(checked: CheckedQuestion) -> bytes:
    """Return the canonical bytes of a question."""
    return msgspec.json.encode(checked.question)


def check_question(question: Question, schema: Schema) -> CheckedQuestion:
    """Return a question that the schema allows.

    Args:
        schema: which `check_schema` has checked.
    Raises: RequestInvalid: naming field, rule and value, from schema and question alone.
    """
    name = "" if isinstance(question, CountQuestion) else question.column
    column = _statistic_column(name, question.column_kind, schema)
    groups = _groups(question, schema, column)
    expression = None
    if question.where.strip():
        expression = parse_filter(question.where, schema, field="where")
    rows = schema.rows_per_unit if question.rows is UNSET else question.rows
    if not 1 <= rows <= schema.rows_per_unit:
        rule = f"must be between 1 and {schema.rows_per_unit}, the schema's rows per unit"
        raise RequestInvalid("rows", rule, rows)
    where = "" if expression is None else filter_text(expression)
    if len(where) > MAX_TEXT:
        rule = f"must be at most {MAX_TEXT} characters in its canonical form"
        raise RequestInvalid("where", rule, question.where)
    checked = CheckedQuestion(
        question=msgspec.structs.replace(question, where=where),
        schema=schema,
        filter=expression,
        column=column,
        groups=groups,
        rows=rows,
    )
    _check_size(checked)
    return checked


def _statistic_column(
    name: str, kind: type[NumberColumn | CategoryColumn] | None, schema: Schema
) -> Column | None:
    if kind is None:
        return None
    column = schema.find(name, field="column")
    if not isinstance(column, kind):
        rule = f"must be a {kind.__struct_config__.tag} column"
        raise RequestInvalid("column", rule, f"{name}, a {column.__struct_config__.tag} column")
    return column


def _groups(
    question: Question, schema: Schema, column: Column | None
) -> tuple[CategoryColumn | BooleanColumn, ...]:
    if len(question.by) > MAX_GROUPED:
        rule = f"must be at most {MAX_GROUPED} columns"
        raise RequestInvalid("by", rule, f"{len(question.by)} columns")
    groups = list[CategoryColumn | BooleanColumn]()
    if isinstance(question, HistogramQuestion) and isinstance(column, CategoryColumn):
        groups.append(column)
    for i, name in enumerate(question.by):
        group = schema.find(name, field=f"by[{i}]")
        if isinstance(group, NumberColumn):
            rule = "must be a category or boolean column"
            raise RequestInvalid(f"by[{i}]", rule, f"{name}, a number column")
        if group in groups or group == column:
            raise RequestInvalid(f"by[{i}]", "must be a column that is not named before", name)
        groups.append(group)
    return tuple(groups)


def _check_size(checked: CheckedQuestion) -> None:
    """Check how many values the answer has, or how many candidates it is chosen from."""
    question, column, each = checked.question, checked.column, 1
    if isinstance(question, QuantileQuestion) and isinstance(column, NumberColumn):
        if not 0 <= parse_signed_decimal(question.fraction, field="fraction") <= 1:
            raise RequestInvalid("fraction", "must be between 0 and 1", question.fraction)
        each = column.candidates
        if each > MAX_CANDIDATES:
            rule = f"must have at most {MAX_CANDIDATES} candidates: declare `step` in the schema"
            raise RequestInvalid("column", rule, f"{column.name} with {each}")
    if isinstance(question, TopQuestion) and isinstance(column, CategoryColumn):
        each = len(column.categories)
        if not 1 <= question.most <= min(each, MAX_SELECTIONS):
            rule = f"must be between 1 and {min(each, MAX_SELECTIONS)}"
            raise RequestInvalid("most", rule, question.most)
    if checked.cells * each > MAX_CANDIDATES:
        rule = f"must make at most {MAX_CANDIDATES} groups, each candidate counted"
        raise RequestInvalid("by", rule, f"{checked.cells * each} groups")
