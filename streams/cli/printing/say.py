"""Prints plain text with control characters escaped."""

from __future__ import annotations

import sys

from accountant.foreign_text import escape_lines


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print a text to stdout or stderr; control characters other than line ends are escaped."""
    stream = sys.stderr if err else sys.stdout
    stream.write(escape_lines(str(text)) + end)
    stream.flush()
