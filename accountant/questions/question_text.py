"""Questions as text: `count where age > 65`, `mean("net income") by region`.

question = statistic { "," statistic } { clause }, each clause at most once
statistic = word [ "(" numbers { "," number } [ "," width ] ")" ], by the table of statistics
numbers = column | "clamp" "(" column "," number "," number ")"
width = "width" number
clause = "where" expression | "by" group { "," group } | "rows" number | "rows_per_group" number
group = column | word "(" column ")" | "band" "(" column "," cuts ")"
cuts = number { "," number } | width
column = word | name in double quotes
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec import UNSET

from accountant.questions.decimals import decimal_text
from accountant.questions.filter_expression import filter_text
from accountant.questions.filter_parser import FilterParser
from accountant.questions.group_functions import group_text, read_group, read_width
from accountant.questions.question import CheckedQuestion, check_question
from accountant.questions.schema import Schema, name_text
from accountant.questions.statistics import (
    WORDS,
    Argument,
    CountQuestion,
    HistogramQuestion,
    Question,
    SeveralQuestion,
    StatisticQuestion,
)
from accountant.questions.statistics.base import ColumnQuestion, QuestionClauses
from accountant.questions.tokens import COUNT_HINT, TokenReader, word_hint
from accountant.suggest import did_you_mean

_FIELD: Final = "question"
_MAX_DIGITS: Final = 9


def parse_question(text: str, schema: Schema) -> CheckedQuestion:
    """Return the question of a text, checked against a schema.

    Raises: RequestInvalid: naming the character and what is expected there, or field and rule.
    """
    reader = TokenReader(text, field=_FIELD)
    kind, fields = _statistics(reader)
    also = "a comma, "  # what may follow the statistics, or the last clause, too
    while reader.peek().kind != "end":
        clause = reader.take_if(*QuestionClauses.__struct_fields__)
        if clause is None:
            is_count = kind is CountQuestion and not fields and reader.peek().written == "("
            is_distinct = is_count and "distinct" in text.lower()
            counted = word_hint("distinct") if is_distinct else COUNT_HINT
            hint = partial(str, counted) if is_count else None
            raise reader.error(f"{also}where, by, rows, rows_per_group or the end", hint=hint)
        if clause.written in fields:
            raise reader.error(f"{clause.written} only once", clause)
        fields[clause.written] = _clause(reader, clause.written, schema)
        also = {"where": "and, or, ", "by": "a comma, "}.get(clause.written, "")
    question: Question = kind(**fields)
    return check_question(question, schema)


def parse_statistic(text: str) -> StatisticQuestion:
    """Return the statistic of a text such as `median(age)`, which no schema has checked.

    Raises: RequestInvalid: naming the character and what is expected there.
    """
    reader = TokenReader(text, field=_FIELD)
    kind, fields = _statistic(reader)
    if reader.peek().kind != "end":
        raise reader.error("the end")
    found: StatisticQuestion = kind(**fields)
    return found


def _statistics(reader: TokenReader) -> tuple[Any, dict[str, Any]]:
    """Return the kind of a question with the fields that its statistics give."""
    found = [_statistic(reader)]
    while reader.take_if(","):
        found.append(_statistic(reader))
    if len(found) == 1:
        return found[0]
    return SeveralQuestion, {"statistics": tuple([kind(**fields) for kind, fields in found])}


def question_text(question: Question) -> str:
    """Return the text of a question, from which `parse_question` makes an equal one.

    Args:
        question: as `CheckedQuestion` has it.
    """
    each = question.statistics if isinstance(question, SeveralQuestion) else (question,)
    text = ", ".join(map(statistic_text, each))
    if question.where:
        text += f" where {question.where}"
    if question.by:
        text += f" by {', '.join(map(group_text, question.by))}"
    if question.rows is not UNSET:
        text += f" rows {question.rows}"
    if question.rows_per_group is not UNSET:
        text += f" rows_per_group {question.rows_per_group}"
    return text


def statistic_text(question: StatisticQuestion) -> str:
    """Return the text of a statistic, without clauses."""
    if question.column_kind is None:
        return question.name
    given = [str(getattr(question, argument.name)) for argument in question.arguments]
    return f"{question.name}({', '.join([_column_text(question), *given])})"


def _column_text(question: StatisticQuestion) -> str:
    """Return the column of a question, with its bounds or the width of its bands."""
    assert isinstance(question, ColumnQuestion), "others have no column"
    text = name_text(question.column)
    if question.clamp is not UNSET:
        text = f"clamp({', '.join([text, *question.clamp])})"
    if isinstance(question, HistogramQuestion) and question.width is not UNSET:
        text += f", width {question.width}"
    return text


def _column(reader: TokenReader) -> dict[str, Any]:
    """Return the fields of a column, which may be clamped."""
    name = reader.expect_name("a column")
    if name.kind != "word" or name.written != "clamp" or not reader.take_if("("):
        return {"column": name.written}
    column = reader.expect_name("a column").written
    bounds = []
    for _ in range(2):
        reader.expect(",", hint=lambda: f"write clamp({name_text(column)}, 0, 100)")
        bounds.append(decimal_text(reader.take_number("a number")))
    reader.expect(")")
    return {"column": column, "clamp": tuple(bounds)}


def _statistic(reader: TokenReader) -> tuple[Any, dict[str, Any]]:
    """Return the kind of a question with the fields that its first words give."""
    name = reader.peek()
    if name.kind != "word" or name.written not in WORDS:
        meant = did_you_mean(name.written, tuple(WORDS))
        hint = partial(word_hint, name.written) if word_hint(name.written) else meant
        raise reader.error(f"one of {', '.join(WORDS)}", hint=hint)
    reader.take()
    kind, given = WORDS[name.written]
    fields = {**given}
    if kind.column_kind is not None:
        reader.expect("(")
        fields |= _column(reader)
        if kind is HistogramQuestion and reader.take_if(","):
            fields["width"] = read_width(reader)
            if fields["width"] is None:
                raise reader.error("width and a number, such as width 10")
        for argument in kind.arguments:
            if argument.name not in given:
                reader.expect(",", hint=partial(_sample, kind, name.written, fields["column"]))
                fields[argument.name] = _argument(reader, argument)
        reader.expect(")")
    return kind, fields


def _sample(kind: Any, word: str, column: str) -> str:
    """Return how to write a statistic with its arguments."""
    examples = [argument.example for argument in kind.arguments]
    return f"write {word}({', '.join([name_text(column), *examples])})"


def _argument(reader: TokenReader, argument: Argument) -> int | str:
    if argument.is_whole:
        return _whole(reader)
    return decimal_text(reader.take_number(argument.expected))


def _clause(reader: TokenReader, clause: str, schema: Schema) -> Any:
    if clause == "where":
        return filter_text(FilterParser(reader, schema).parse())
    if clause.startswith("rows"):
        return _whole(reader)
    groups = [read_group(reader)]
    while reader.take_if(","):
        groups.append(read_group(reader))
    return tuple(groups)


def _whole(reader: TokenReader) -> int:
    token = reader.peek()
    digits = token.written
    if token.kind != "number" or not digits.isdecimal() or len(digits) > _MAX_DIGITS:
        raise reader.error("a whole number of at most 9 digits")
    return int(reader.take().written)
