"""Text that others wrote, as terminals, tables, CSV and pages show it: it cannot act there.

A control character moves a terminal's cursor, a direction mark swaps what a reader sees, a line
separator begins a line of its own, and a cell that begins with `=` is a formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

# C0, DEL and C1; marks, embeddings, overrides and isolates of direction; line and paragraph
# separators; halves of a surrogate pair, which UTF-8 cannot encode.
_PLANE: Final = r"\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CLASS: Final = _PLANE + r"\ud800-\udfff"
CONTROL: Final = re.compile(f"[{_CLASS}]")
"""A character that no text of a record may have, and that is shown as its escape."""
PLAIN_PATTERN: Final = f"[^{_PLANE}]*"
"""A whole text without one, as JSON Schema writes it, which knows no lone surrogate."""

_BUT_LINE_ENDS: Final = re.compile(f"(?!\\n)[{_CLASS}]")
_BUT_SPACE: Final = re.compile(f"(?![\\t\\n])[{_CLASS}]")
# With the full-width forms, which some spreadsheets read as the plain ones.
_FORMULA: Final = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
# Where another separator than a comma is usual, a text may begin a cell in its middle.
_CELL_BEGINS: Final = re.compile(rf"[;|](?=[\s\"']*[{re.escape(''.join(_FORMULA))}])")
# Names, amounts and times: nothing there has a meaning in CSV.
_UNQUOTED: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._@:-]*)?")


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def escape_text(text: str) -> str:
    r"""Return a text in one line, each control character as its escape, such as `\u001b`."""
    return CONTROL.sub(_escape, text)


def escape_lines(text: str) -> str:
    """Return a text of several lines, each control character but line ends as its escape."""
    return _BUT_LINE_ENDS.sub(_escape, text)


def escape_json(value: bytes) -> bytes:
    """Return JSON that means the same, its control characters as JSON's own escapes.

    Valid JSON has such characters only within texts, where an escape may replace each; tabs and
    line ends separate its words.
    """
    return _BUT_SPACE.sub(_escape, value.decode("utf-8", "surrogateescape")).encode()


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return a table as CSV with a header; see `csv_cell`."""
    return "".join(_csv_lines(columns, rows))


def _csv_lines(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    yield ",".join(columns) + "\n"
    for row in rows:
        yield ",".join(csv_cell(row[column]) for column in columns) + "\n"


def csv_cell(value: object) -> str:
    """Return a cell of CSV: numbers as they are, any other text quoted, and never a formula.

    An apostrophe before a text has spreadsheets take it for text.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    if _UNQUOTED.fullmatch(value):
        return value
    text = escape_text(value)
    # What is escaped begins with a backslash, but was perhaps a tab.
    if value.lstrip().startswith(_FORMULA) or text[:1] != value[:1]:
        text = f"'{text}"
    text = _CELL_BEGINS.sub(r"\g<0>'", text)
    return '"' + text.replace('"', '""') + '"'
