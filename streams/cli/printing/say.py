"""Lines of plain text, which nothing in them can act on."""

from __future__ import annotations

import sys

from accountant.foreign_text import escaped_lines


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print a text on stdout or stderr, control characters but line ends as escapes."""
    stream = sys.stderr if err else sys.stdout
    stream.write(escaped_lines(str(text)) + end)
    stream.flush()
