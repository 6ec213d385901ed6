"""Describes the lines of a file that were not decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accountant.advice.request_file import Columns


def undecided_words(columns: Columns) -> str:
    """Return the number of undecided lines by reason, and the first of them."""
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(columns.reasons.items()))
    return f"{counts}; the first is line {columns.first}: {columns.why}"
