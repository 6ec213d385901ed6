"""Questions as text: `count where age > 65`, `mean("net income") by region`.

question = statistic { clause }, each clause at most once
statistic = "count" | "sum" "(" column ")" | "mean" "(" column ")" | "variance" "(" column ")"
          | "median" "(" column ")" | "quantile" "(" column "," number ")"
          | "histogram" "(" column ")" | "top" "(" column "," number ")"
clause = "where" expression | "by" column { "," column } | "rows" number
column = word | name in double quotes
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from accountant.questions.decimals import decimal_text
from accountant.questions.filter_expression import filter_text
from accountant.questions.filter_parser import FilterParser
from accountant.questions.question import (
    CheckedQuestion,
    CountQuestion,
    HistogramQuestion,
    MeanQuestion,
    QuantileQuestion,
    Question,
    SumQuestion,
    TopQuestion,
    VarianceQuestion,
    check_question,
)
from accountant.questions.schema import Schema, name_text
from accountant.questions.tokens import TokenReader
from accountant.suggest import did_you_mean

_FIELD: Final = "question"
_OF_COLUMN: Final[dict[str, Any]] = {
    "sum": SumQuestion,
    "mean": MeanQuestion,
    "variance": VarianceQuestion,
    "histogram": HistogramQuestion,
}
STATISTICS: Final = ("count", *_OF_COLUMN, "median", "quantile", "top")
"""The words with which a question may begin."""
_MAX_DIGITS: Final = 9


def parse_question(text: str, schema: Schema) -> CheckedQuestion:
    """Return the question of a text, checked against a schema.

    Raises: RequestInvalid: naming the character and what is expected there, or field and rule.
    """
    reader = TokenReader(text, field=_FIELD)
    kind, fields = _statistic(reader)
    also = ""  # what may follow the last clause, too
    while reader.peek().kind != "end":
        clause = reader.take_if("where", "by", "rows")
        if clause is None:
            raise reader.error(f"{also}where, by, rows or the end")
        if clause.written in fields:
            raise reader.error(f"{clause.written} only once", clause)
        fields[clause.written] = _clause(reader, clause.written, schema)
        also = {"where": "and, or, ", "by": "a comma, "}.get(clause.written, "")
    question: Question = kind(**fields)
    return check_question(question, schema)


def question_text(question: Question) -> str:
    """Return the text of a question, from which `parse_question` makes an equal one.

    Args:
        question: as `CheckedQuestion` has it.
    """
    match question:
        case CountQuestion():
            text = "count"
        case QuantileQuestion(column=column, fraction=fraction):
            text = f"quantile({name_text(column)}, {fraction})"
        case TopQuestion(column=column, most=most):
            text = f"top({name_text(column)}, {most})"
        case _:
            text = f"{question.__struct_config__.tag}({name_text(question.column)})"
    if question.where:
        text += f" where {question.where}"
    if question.by:
        text += f" by {', '.join(map(name_text, question.by))}"
    return text if question.rows is UNSET else f"{text} rows {question.rows}"


def _statistic(reader: TokenReader) -> tuple[Any, dict[str, Any]]:
    """Return the kind of a question with the fields that its first words give."""
    name = reader.peek()
    if name.kind != "word" or name.written not in STATISTICS:
        hint = did_you_mean(name.written, STATISTICS)
        raise reader.error(f"one of {', '.join(STATISTICS)}", hint=hint)
    reader.take()
    if name.written == "count":
        return CountQuestion, {}
    reader.expect("(")
    column = reader.expect_name("a column").written
    if name.written == "quantile":
        reader.expect(",")
        fraction = reader.take_number("a fraction between 0 and 1, such as 0.9")
        kind, fields = QuantileQuestion, {"column": column, "fraction": decimal_text(fraction)}
    elif name.written == "median":
        kind, fields = QuantileQuestion, {"column": column, "fraction": "0.5"}
    elif name.written == "top":
        reader.expect(",")
        return _closed(reader, TopQuestion, {"column": column, "most": _whole(reader)})
    else:
        kind, fields = _OF_COLUMN[name.written], {"column": column}
    return _closed(reader, kind, fields)


def _closed(reader: TokenReader, kind: Any, fields: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    reader.expect(")")
    return kind, fields


def _clause(reader: TokenReader, clause: str, schema: Schema) -> Any:
    if clause == "where":
        return filter_text(FilterParser(reader, schema).parse())
    if clause == "rows":
        return _whole(reader)
    columns = [reader.expect_name("a column").written]
    while reader.take_if(","):
        columns.append(reader.expect_name("a column").written)
    return tuple(columns)


def _whole(reader: TokenReader) -> int:
    token = reader.peek()
    digits = token.written
    if token.kind != "number" or not digits.isdecimal() or len(digits) > _MAX_DIGITS:
        raise reader.error("a whole number of at most 9 digits")
    return int(reader.take().written)
