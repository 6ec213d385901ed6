"""Processor time of processes that are no children of the tests, such as forks of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_TOTALS: Final[list[Callable[[], float]]] = []


def count(total: Callable[[], float]) -> None:
    """Count further processes.

    Args:
        total: returns their processor seconds up to now.
    """
    _TOTALS.append(total)


def seconds_elsewhere() -> float:
    """Return the processor seconds of all such processes up to now."""
    return sum(total() for total in _TOTALS)
