"""From the words of the JSON library to field, rule and value, and to the word that was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NoReturn

import msgspec
from msgspec.inspect import (
    Field,
    ListType,
    LiteralType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from accountant.errors import UNKNOWN_FIELD, RequestInvalid
from accountant.suggest import did_you_mean

_SHOWN: Final = 200
_AT = re.compile(r"(.*?)(?: - at `(?:key in )?\$?\.?(.*?)`)?", re.DOTALL)
_NUMBER_FOR_TEXT: Final = re.compile(r"expected `str.*`, got `(?:int|float)`")
_PART = re.compile(r"[^.\[\]]+")


def translate(error: msgspec.ValidationError, whole: object, kind: Any) -> NoReturn:
    """Raise the RequestInvalid that names field, rule and value.

    Args:
        error: of decoding or converting `whole`.
        whole: what was to be decoded, as plain values.
        kind: the type that it was to be.
    """
    match = _AT.fullmatch(str(error))
    rule, path = (match[1], match[2] or "") if match else (str(error), "")
    named = re.search(r"field `(.*?)`", rule)
    if named:
        path = f"{path}.{named[1]}" if path else named[1]
        rule = "must be given" if "missing" in rule else UNKNOWN_FIELD
    else:
        rule = f"has the wrong form ({rule[:1].lower()}{rule[1:]})"
    parts = _PART.findall(path)
    value = whole
    for part in parts:
        value = _within(value, part, missing="nothing")

    def hint() -> str:
        # What is wrong with a field that is not known is its name.
        word, known = parts[-1] if named else value, _allowed_words(kind, whole, parts)
        if meant := did_you_mean(word, known)():
            return meant
        if named and rule == UNKNOWN_FIELD and known:
            return f"the fields here are {', '.join(known)}"
        return f'write it as text: "{value}"' if _NUMBER_FOR_TEXT.search(rule) else ""

    # A field's name may be the sender's: shown in part, or the decision outgrows its record.
    raise RequestInvalid(path[:_SHOWN] or "body", rule[:_SHOWN], value, hint=hint) from None


def allowed_words(kind: Any, whole: object, field: str) -> tuple[str, ...]:
    """Return the words that a field of some values may have, () if it may have others."""
    return _allowed_words(kind, whole, _PART.findall(field))


def _within(value: object, part: str, missing: object) -> object:
    if isinstance(value, dict):
        return value.get(part, missing)
    if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return value


@cache
def _of(kind: Any) -> Type:
    return type_info(kind)


def _allowed_words(kind: Any, value: object, parts: list[str]) -> tuple[str, ...]:
    """Return the words that are allowed at the end of a path through a value of some type."""
    info = _of(kind)
    for part in parts:
        structs = [each for each in _options(info) if isinstance(each, StructType)]
        if structs and structs[0].tag_field == part:
            return tuple(str(each.tag) for each in structs)
        if structs:
            fields = _fields(structs, value)
            if part not in fields:
                return tuple(fields)
            info = fields[part].type
        else:
            items = [each.item_type for each in _options(info) if isinstance(each, _Array)]
            if not items:
                return ()
            info = items[0]
        value = _within(value, part, None)
    literals = [each for each in _options(info) if isinstance(each, LiteralType)]
    return tuple(str(word) for each in literals for word in each.values)


_Array: Final = (ListType, VarTupleType)


def _options(info: Type) -> Iterator[Type]:
    yield from info.types if isinstance(info, UnionType) else (info,)


def _fields(structs: list[StructType], value: object) -> dict[str, Field]:
    """Return the fields of the one of some types that a value's tag names."""
    for each in structs:
        tag = value.get(each.tag_field) if isinstance(value, dict) and each.tag_field else None
        if len(structs) == 1 or tag == each.tag:
            return {field.encode_name: field for field in each.fields}
    return {}
