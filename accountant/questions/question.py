"""Questions that a schema allows, and the exact statistics that they are answered from."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UNSET

from accountant.errors import RequestInvalid
from accountant.questions.column_questions import questions_hint
from accountant.questions.filter_expression import filter_text
from accountant.questions.filter_parser import parse_filter
from accountant.questions.group_functions import group_text, groups_of
from accountant.questions.groups import ColumnGroups, GroupSet
from accountant.questions.schema import (
    MAX_CANDIDATES,
    CalendarColumn,
    Column,
    Schema,
)
from accountant.questions.scope import Scope
from accountant.questions.sensitivity import SelectionStatistic, VectorStatistic
from accountant.questions.statistics import (
    MAX_STATISTICS,
    CountQuestion,
    Question,
    SeveralQuestion,
    Statistic,
    StatisticQuestion,
)
from accountant.questions.statistics.base import ColumnQuestion
from accountant.questions.tokens import MAX_TEXT

MAX_GROUPED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuestion(Scope):
    """A question that a schema allows.

    Attributes:
        question: with its filter in canonical text.
        each: of several statistics, each as if it was asked alone; () of one.
    """

    question: Question
    each: tuple[CheckedQuestion, ...] = ()

    @property
    def statistic(self) -> StatisticQuestion:
        """The question, of one statistic."""
        assert isinstance(self.question, StatisticQuestion), "read `alone` of several"
        return self.question

    @property
    def alone(self) -> tuple[CheckedQuestion, ...]:
        """Each of its statistics, as if it was asked alone."""
        return self.each or (self,)

    @property
    def column_names(self) -> set[str]:
        """The names of the columns that the question reads, its filter included."""
        return set[str]().union(*(each.own_columns for each in self.alone))

    @property
    def reads_zone(self) -> bool:
        """Whether it reads dates or times on the clocks of a zone, other than UTC's."""
        names, schema = self.column_names, self.schema
        return schema.zone is not UNSET and any(
            isinstance(each, CalendarColumn) and each.name in names for each in schema.columns
        )


def encode_question(checked: CheckedQuestion) -> bytes:
    """Return the canonical bytes of a question."""
    return msgspec.json.encode(checked.question)


def statistics_of(
    checked: CheckedQuestion,
) -> tuple[VectorStatistic, ...] | SelectionStatistic:
    """Return the exact statistics that a question of one statistic reads, and their sensitivities.

    Raises: TypeError: nobody has said what a unit changes. A guess would add too little noise.
    """
    statistics = [part.sensitivity(checked) for part in checked.statistic.drawn_parts(checked)]
    vectors = [each for each in statistics if isinstance(each, VectorStatistic)]
    if len(vectors) == len(statistics):
        return tuple(vectors)
    (choice,) = statistics
    assert isinstance(choice, SelectionStatistic), "it is no vector"
    return choice


def check_question(question: Question, schema: Schema) -> CheckedQuestion:
    """Return a question that the schema allows.

    Args:
        schema: which `check_schema` has checked.
    Raises: RequestInvalid: naming field, rule and value, from schema and question alone.
    """
    if isinstance(question, SeveralQuestion):
        return _check_several(question, schema)
    column = _statistic_column(question, schema)
    groups = _all_groups(question, schema, column)
    expression = None
    if question.where.strip():
        expression = parse_filter(question.where, schema, field="where")
    rows = schema.rows_per_unit if question.rows is UNSET else question.rows
    if not 1 <= rows <= schema.rows_per_unit:
        rule = f"must be between 1 and {schema.rows_per_unit}, the schema's rows per unit"
        raise RequestInvalid("rows", rule, rows)
    per_group = rows if question.rows_per_group is UNSET else question.rows_per_group
    if not 1 <= per_group <= rows:
        rule = f"must be between 1 and {rows}, the most rows of a unit in all groups together"
        raise RequestInvalid("rows_per_group", rule, per_group)
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
        # No more fit into so many groups, and no more are paid for.
        rows=min(rows, per_group * math.prod(each.size for each in groups)),
        rows_per_group=per_group,
    )
    question.check(checked)
    _check_size(checked)
    return checked


def _check_several(question: SeveralQuestion, schema: Schema) -> CheckedQuestion:
    """Return several statistics that the schema allows: each by itself, with the same clauses."""
    of_rows = check_question(CountQuestion().with_clauses_of(question), schema)
    question = msgspec.structs.replace(question, where=of_rows.question.where)
    if not 2 <= len(question.statistics) <= MAX_STATISTICS:
        rule = f"must be 2 to {MAX_STATISTICS} statistics"
        raise RequestInvalid("statistics", rule, f"{len(question.statistics)} statistics")
    each = list[CheckedQuestion]()
    for i, statistic in enumerate(question.statistics):
        _check_among_several(f"statistics[{i}]", statistic, question.statistics[:i])
        try:
            each.append(check_question(question.alone[i], schema))
        except RequestInvalid as error:
            raise error.under(f"statistics[{i}]") from None
        if each[i].groups != of_rows.groups or statistic.in_each_group > 1:
            rule = "must have one value in each group: ask count by the column, or this one alone"
            raise RequestInvalid(f"statistics[{i}]", rule, statistic.name)
    if of_rows.cells * len(each) > MAX_CANDIDATES:
        rule = f"must make at most {MAX_CANDIDATES} groups, each statistic counted"
        raise RequestInvalid("by", rule, f"{of_rows.cells * len(each)} groups", hint=_fewer_groups)
    return dataclasses.replace(of_rows, question=question, each=tuple(each))


def _check_among_several(field: str, statistic: Statistic, before: tuple[Statistic, ...]) -> None:
    """Check that a statistic has one value in each group, its own place, and no clauses."""
    if statistic in before:
        raise RequestInvalid(field, "must be another statistic than those before", statistic.name)
    if statistic.with_clauses_of(CountQuestion()) != statistic:
        rule = "must have no clauses of its own: all statistics share those"
        raise RequestInvalid(field, rule, statistic.name)


def _statistic_column(question: StatisticQuestion, schema: Schema) -> Column | None:
    kind = question.column_kind
    if kind is None:
        return None
    column = schema.find(question.column_name, field="column")
    if not isinstance(column, (kind, *question.other_kinds)):
        rule = f"must be a {kind.__struct_config__.tag} column"
        named = f"{column.name}, a {column.__struct_config__.tag} column"
        raise RequestInvalid("column", rule, named, hint=lambda: questions_hint(column))
    assert isinstance(question, ColumnQuestion), "others have no column"
    return question.of_column(column)


def _all_groups(
    question: StatisticQuestion, schema: Schema, column: Column | None
) -> tuple[GroupSet, ...]:
    if len(question.by) > MAX_GROUPED:
        rule = f"must be at most {MAX_GROUPED} columns"
        raise RequestInvalid("by", rule, f"{len(question.by)} columns")
    found = list[GroupSet]()
    own = question.own_groups(column)
    if own is not None:
        found.append(own)
    for i, named in enumerate(question.by):
        group = groups_of(named, schema, field=f"by[{i}]")
        is_its_column = isinstance(group, ColumnGroups) and group.column == column
        if group in found or is_its_column:
            text = group_text(named)
            raise RequestInvalid(f"by[{i}]", "must be a column that is not named before", text)
        found.append(group)
    return tuple(found)


def _check_size(checked: CheckedQuestion) -> None:
    """Check how many values the answer has, or how many candidates it is chosen from."""
    statistics = statistics_of(checked)
    each = statistics.candidates if isinstance(statistics, SelectionStatistic) else 1
    if checked.cells * each > MAX_CANDIDATES:
        rule = f"must make at most {MAX_CANDIDATES} groups, each candidate counted"
        got = f"{checked.cells} groups"
        hint = _fewer_groups
        if each > 1:
            got = f"{checked.cells * each} groups: {checked.cells} of {each} candidates"
            hint = _fewer_candidates
        raise RequestInvalid("by", rule, got, hint=hint)


def _fewer_groups() -> str:
    return "group by fewer columns, by month in place of day, or by bands of a larger width"


def _fewer_candidates() -> str:
    return (
        f"{_fewer_groups()}; or ask for fewer candidates, as in median(clamp(age, 18, 65)). "
        "A schema with a larger step has fewer, too"
    )
