"""The figures of a benchmark, and their statistics."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        name: what was measured.
        value: in `unit`.
        at_most, at_least: what it must be, None where it is only put on record.
        note: how it came about, in a few words.
    """

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the figure meets its target; None without a target."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    @property
    def wanted(self) -> str:
        """The target of the figure, in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The amount of work of the benchmarks.

    Attributes:
        quick: a tenth, to see that they run; the figures are then rough.
    """

    quick: bool = False

    def of(self, count: int) -> int:
        """Return a count at this scale."""
        return count // 10 if self.quick else count


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Return the shortest time of several rounds, in seconds.

    The shortest round is the least disturbed by other load.
    """
    seconds = []
    for _ in range(rounds):
        gc.collect()
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
