"""A schema as people write it: its file, and what is wrong with it in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from accountant.errors import RequestInvalid
from accountant.questions.schema import Schema, check_schema
from accountant.records.translate import allowed_words, translate
from accountant.strict_json import read_json

FILL_IN: Final = "FILL IN: "
"""What begins each text of a skeleton that its owner has to replace."""
_MOST_LISTED: Final = 10
_TYPES: Final = re.compile(r"expected `(\w+).*`, got `(\w+)`")
_WORDS_OF_JSON: Final = {"None": "null", "True": "true", "False": "false"}
_EXPECTED: Final = {
    "str": "must be text in quotes",
    "int": "must be a whole number without quotes",
    "bool": "must be true or false",
    "array": "must be a list, such as [...]",
    "object": "must be an object, such as {...}",
}


def read_schema_file(content: bytes) -> Schema:
    """Return the schema of a JSON file.

    Raises: RequestInvalid: naming field, rule and value.
    """
    try:
        content.decode()
        value = read_json(content)
    except UnicodeDecodeError as error:
        raise RequestInvalid("schema", "must be UTF-8", error.reason) from None
    except msgspec.DecodeError as error:
        raise RequestInvalid("schema", "must be JSON", str(error)) from None
    return schema_of(value)


def schema_of(value: object) -> Schema:
    """Return the schema of plain values.

    Raises: RequestInvalid: naming field, rule and value.
    """
    todo = list(_to_fill_in(value, ""))
    if todo:
        (field, text), *more = todo
        others = ", ".join(name for name, _ in more[:_MOST_LISTED])
        also = f" (and {others}{', ...' if len(more) > _MOST_LISTED else ''})" if more else ""
        column = _column_of(field, value)
        raise RequestInvalid(field, f"must be filled in{column}{also}", text)
    try:
        schema = msgspec.convert(value, Schema)
    except msgspec.ValidationError as error:
        raise _in_words(error, value) from None
    return check_schema(schema)


def _to_fill_in(value: object, field: str) -> Iterator[tuple[str, str]]:
    """Yield each field that still has the text of a skeleton."""
    if isinstance(value, str) and value.startswith(FILL_IN):
        yield field, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _to_fill_in(inner, f"{field}.{name}" if field else name)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _to_fill_in(inner, f"{field}[{i}]")


def _column_of(field: str, value: object) -> str:
    """Return ` for column NAME` of a field within a column that has a name, else ""."""
    found = re.match(r"columns\[(\d+)\]\.", field)
    if found is None or not isinstance(value, dict):
        return ""
    name = value["columns"][int(found[1])].get("name")
    return f" for column {name}" if isinstance(name, str) and not name.startswith(FILL_IN) else ""


def _in_words(error: msgspec.ValidationError, value: object) -> RequestInvalid:
    """Return the error of a value of another type, without the words of the JSON library."""
    try:
        translate(error, value, Schema)
    except RequestInvalid as wrong:
        field = "schema" if wrong.field == "body" else wrong.field
        hint = wrong.hint
        shown = _WORDS_OF_JSON.get(wrong.value, wrong.value)
        return RequestInvalid(field, _rule(wrong, value), shown, hint=lambda: hint)


def _rule(wrong: RequestInvalid, value: object) -> str:
    types = _TYPES.search(wrong.rule)
    if types is not None:
        if types[1] == "str" and types[2] in {"int", "float"}:
            return f'must be text in quotes, such as "{wrong.value}"'
        return _EXPECTED.get(types[1], "has another form")
    words = allowed_words(Schema, value, wrong.field)
    if wrong.rule.startswith("has the wrong form") and words:
        return f"must be {', '.join(words[:-1])} or {words[-1]}"
    return wrong.rule
