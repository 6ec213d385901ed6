"""Texts and numbers as literals of SQL, and names as identifiers."""

from __future__ import annotations

import re
from typing import Final

_MOST_BIGINT: Final = 2**63 - 1
_PART: Final = r'(?:"(?:[^"]|"")+"|[^".]+)'
_TABLE: Final = re.compile(rf"({_PART})(?:\.({_PART}))?")


def text_literal(text: str) -> str:
    """Return a text as a literal; DuckDB knows no escape but the doubled quote."""
    if "\x00" in text:
        raise ValueError("a literal has no NUL")
    return "'" + text.replace("'", "''") + "'"


def name_literal(name: str) -> str:
    """Return a name as a quoted identifier."""
    if "\x00" in name:
        raise ValueError("a name has no NUL")
    return '"' + name.replace('"', '""') + '"'


def table_names(table: str) -> list[str]:
    """Return the names in `table` or `schema.table`; one with a dot in it is quoted.

    Raises: ValueError: another form.
    """
    parts = _TABLE.fullmatch(table)
    if parts is None:
        raise ValueError('a table is TABLE or SCHEMA.TABLE; quote a name with a dot: "A.B"')
    names = [part for part in parts.groups() if part is not None]
    return [name[1:-1].replace('""', '"') if name[0] == '"' else name for name in names]


def integer_literal(number: int) -> str:
    """Return a whole number of up to 38 digits as a literal."""
    if abs(number) <= _MOST_BIGINT:
        return f"({number}::BIGINT)"
    return f"('{number}'::HUGEINT)"


def double_literal(number: float) -> str:
    """Return a finite double as a literal that reads as the same double."""
    return f"('{number!r}'::DOUBLE)"
