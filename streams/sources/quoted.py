"""Texts and numbers as literals of SQL, and names as identifiers."""

from __future__ import annotations

from typing import Final

_MOST_BIGINT: Final = 2**63 - 1


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


def integer_literal(number: int) -> str:
    """Return a whole number of up to 38 digits as a literal."""
    if abs(number) <= _MOST_BIGINT:
        return f"({number}::BIGINT)"
    return f"('{number}'::HUGEINT)"


def double_literal(number: float) -> str:
    """Return a finite double as a literal that reads as the same double."""
    return f"('{number!r}'::DOUBLE)"
