"""Text that others wrote, as terminals, tables, CSV and pages show it: it cannot act there.

A control character moves a terminal's cursor, a direction mark swaps what a reader sees, a line
separator begins a line of its own, an invisible character makes two texts look like one, and a cell
that begins with `=` is a formula.
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
"""A character that no text of a record may have."""
# What Unicode calls default ignorable, format characters that nobody sees, blanks of Braille, music
# and Khitan, and what no font has to draw: noncharacters, and characters for private use.
_INVISIBLE: Final = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U00016fe4\U000e0000-\U000e0fff"
    r"\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
)
_HIDDEN_CLASS: Final = _CLASS + _INVISIBLE
HIDDEN: Final = re.compile(f"[{_HIDDEN_CLASS}]")
"""A character that is shown as its escape: one of `CONTROL`, or one that nobody sees."""
PLAIN_PATTERN: Final = f"[^{_PLANE}]*"
"""A whole text without one, as JSON Schema writes it, which knows no lone surrogate."""

_CONTROL_BUT_SPACE: Final = re.compile(f"(?![\\t\\n])[{_CLASS}]")
_CONTROL_BUT_LINE_ENDS: Final = re.compile(f"(?!\\n)[{_CLASS}]")
_BUT_LINE_ENDS: Final = re.compile(f"(?!\\n)[{_HIDDEN_CLASS}]")
_BUT_SPACE: Final = re.compile(f"(?![\\t\\n])[{_HIDDEN_CLASS}]")
_BEYOND_16_BITS: Final = 0x10000
# With the full-width forms, which some spreadsheets read as the plain ones.
_FORMULA: Final = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
# Where another separator than a comma is usual, a text may begin a cell in its middle.
_CELL_BEGINS: Final = re.compile(rf"[;|](?=[\s\"']*[{re.escape(''.join(_FORMULA))}])")
# Names, amounts and times: nothing there has a meaning in CSV.
_UNQUOTED: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._@:-]*)?")


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\u{number:04x}" if number < _BEYOND_16_BITS else f"\\U{number:08x}"


def _escape_of_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def escape_control(text: str, *, lines: bool = False) -> str:
    """Return a text as records repeat it: each character of `CONTROL` as its escape.

    A log's replay writes the same bytes again, so this never changes.

    Args:
        lines: line ends stay.
    """
    return (_CONTROL_BUT_LINE_ENDS if lines else CONTROL).sub(_escape, text)


def escape_control_json(value: bytes) -> bytes:
    """Return JSON that means the same as records repeat it, as `escape_json` with `CONTROL`."""
    return _escaped_json(_CONTROL_BUT_SPACE, value)


def escape_text(text: str) -> str:
    r"""Return a text in one line, each hidden character as its escape, such as `\u001b`."""
    return HIDDEN.sub(_escape, text)


def escape_lines(text: str) -> str:
    """Return a text of several lines, each hidden character but line ends as its escape."""
    return _BUT_LINE_ENDS.sub(_escape, text)


def escape_json(value: bytes) -> bytes:
    """Return JSON that means the same, its hidden characters as JSON's own escapes.

    Valid JSON has such characters only within texts, where an escape may replace each; tabs and
    line ends separate its words.
    """
    return _escaped_json(_BUT_SPACE, value)


def _escaped_json(hidden: re.Pattern[str], value: bytes) -> bytes:
    return hidden.sub(_escape_of_json, value.decode("utf-8", "surrogateescape")).encode()


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
        return str(value).lower() if isinstance(value, bool) else str(value)
    if _UNQUOTED.fullmatch(value):
        return value
    text = escape_text(value)
    # What is escaped begins with a backslash, but was perhaps a tab.
    if value.lstrip().startswith(_FORMULA) or text[:1] != value[:1]:
        text = f"'{text}"
    text = _CELL_BEGINS.sub(r"\g<0>'", text)
    return '"' + text.replace('"', '""') + '"'
