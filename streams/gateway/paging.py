"""The parameters `after` and `limit` of routes that return a page at a time."""

from __future__ import annotations

from typing import Final

from litestar.params import QueryParameter

from accountant.errors import RequestInvalid

FEW: Final = 100
"""Entries of a page whose length nobody asked for."""
MOST: Final = 1_000
LARGEST_NUMBER: Final = 2**53 - 1
"""The largest that every reader of JSON has exactly."""


def after_parameter(description: str) -> QueryParameter:
    """Return the description of `after`, 0 by default."""
    return QueryParameter(
        description=description, schema_extra=_integer(0, LARGEST_NUMBER, default=0)
    )


def limit_parameter(description: str) -> QueryParameter:
    """Return the description of `limit`."""
    return QueryParameter(description=description, schema_extra=_integer(1, MOST, default=FEW))


def read_page(after: str, limit: str) -> tuple[int, int]:
    """Return the numbers of `after` and `limit`.

    Raises: RequestInvalid: one of them is not a whole number within its bounds.
    """
    return (
        whole_number("after", after, 0, LARGEST_NUMBER),
        whole_number("limit", limit, 1, MOST),
    )


def whole_number(field: str, text: str, least: int, maximum: int) -> int:
    """Return a number of the query. Parsed by hand, so that the error names the rule.

    Raises: RequestInvalid: not a whole number within the bounds.
    """
    # Check the length first: parsing a very long number takes quadratic time.
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(maximum))
    if digits and least <= int(text) <= maximum:
        return int(text)
    raise RequestInvalid(field, f"must be a whole number from {least} to {maximum}", text)


def _integer(least: int, maximum: int, *, default: int) -> dict[str, object]:
    return {"type": "integer", "minimum": least, "maximum": maximum, "default": default}
