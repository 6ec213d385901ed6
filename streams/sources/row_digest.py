"""SQL of the keyed hash that chooses a unit's rows, equal to the one of `evaluate`.

The reference hashes JSON of the row's unit and values with HMAC of SHA-256. DuckDB has no HMAC, but
HMAC is two hashes, and the JSON is put together from texts that Python has encoded.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from accountant.questions.filter_expression import literal_text
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    TimeColumn,
)
from streams.sources.quoted import integer_literal, text_literal

_BLOCK_BYTES: Final = 64
"""Of SHA-256: the length of an HMAC's key."""
_ESCAPED: Final = ("\\", '"', *map(chr, range(0x20)))
"""The characters that JSON escapes, the backslash first."""


def content_sql(columns: tuple[Column, ...], unit: str, values: list[str]) -> str:
    """Return the SQL of what the hash of a row is of, as `row_content` has it.

    Args:
        unit: SQL of the unit's text.
        values: SQL of the columns' integers.
    """
    each = [_json_of(column, value) for column, value in zip(columns, values, strict=True)]
    return " || ".join([f"'[' || {_json_text(unit)}", *(f"',' || {one}" for one in each), "']'"])


def digest_sql(content: str, *, key: bytes) -> str:
    """Return the SQL of the hexadecimal digits of `content_digest`, which sort as its bytes."""
    padded = (hashlib.sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(
        _BLOCK_BYTES, b"\0"
    )
    inner, outer = (
        f"unhex('{bytes(each ^ pad for each in padded).hex()}')" for pad in (0x36, 0x5C)
    )
    return f"sha256({outer} || unhex(sha256({inner} || encode({content}))))"


def _json_of(column: Column, value: str) -> str:
    match column:
        case NumberColumn():
            text = f"""'"' || {_decimal_text(value, column.places)} || '"'"""
            return f"coalesce({text}, 'null')"
        case CategoryColumn():
            texts = [literal_text(category) for category in column.categories]
        case BooleanColumn():
            texts = ["false", "true"]
        case DateColumn():
            return _json_of_time(f"(DATE '1970-01-01' + {value}::INTEGER)", "%Y-%m-%d")
        case TimeColumn():
            return _json_of_time(f"make_timestamp({value} * 1000000)", "%Y-%m-%dT%H:%M:%S")
    encoded = ", ".join(text_literal(msgspec.json.encode(text).decode()) for text in texts)
    return f"coalesce([{encoded}][{value} + 1], 'null')"


def _json_of_time(time: str, form: str) -> str:
    quotes = text_literal("\"'"), text_literal("'\"")
    return f"coalesce({quotes[0]} || strftime({time}, '{form}') || {quotes[1]}, 'null')"


def _decimal_text(value: str, places: int) -> str:
    """Return the SQL of `decimal_text` of a multiple of the last place."""
    if places == 0:
        return f"({value}::VARCHAR)"
    unit = integer_literal(10**places)
    part = f"lpad((abs({value}) % {unit})::VARCHAR, {places}, '0')"
    digits = f"(abs({value}) // {unit})::VARCHAR || '.' || {part}"
    sign = f"CASE WHEN {value} < 0 THEN '-' ELSE '' END"
    return f"({sign} || rtrim(rtrim({digits}, '0'), '.'))"


def _json_text(text: str) -> str:
    escaped = text
    for character in _ESCAPED:
        code = msgspec.json.encode(character).decode()[1:-1]
        escaped = f"replace({escaped}, chr({ord(character)}), {text_literal(code)})"
    is_plain = rf"NOT regexp_matches({text}, '[\x00-\x1f\"\\\\]')"
    return f"""('"' || (CASE WHEN {is_plain} THEN {text} ELSE {escaped} END) || '"')"""
