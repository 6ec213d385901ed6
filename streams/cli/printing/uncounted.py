"""What of a file was not decided, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accountant.advice.request_file import Columns


def not_decided(columns: Columns) -> str:
    """Return how many lines were not decided for which reasons, and what the first one is."""
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(columns.reasons.items()))
    return f"{counts}; the first in line {columns.first}: {columns.why}"
