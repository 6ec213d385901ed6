"""Histograms that cost a few microseconds a batch, with an example request for each bucket."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from accountant.records.encoded_decision import EncodedDecision

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the duration histograms, in seconds."""

RECORDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4)
"""Upper bounds of the histogram of batch sizes, in records."""


class Example(NamedTuple):
    """One observation and its decision.

    Attributes:
        encoded: the decision; a scrape decodes its request only when needed.
        value: the observed value.
        at: the time, in milliseconds since 1970.
    """

    encoded: EncodedDecision
    value: float
    at: int


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram as it was at one moment.

    Attributes:
        bounds: upper bounds; one more bucket lies above them all.
        counts: by bucket, not cumulative.
        total: sum of the observed values.
        examples: the latest of each bucket, None for an empty one.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float
    examples: Sequence[Example | None]


class Histogram:
    """Counts values by bucket; one thread at a time writes, any may read."""

    __slots__ = ("_bounds", "_bounds_ms", "_counts", "_examples", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._bounds_ms = tuple([bound * 1000 for bound in bounds])
        self._counts = [0] * (len(bounds) + 1)
        self._examples: list[Example | None] = [None] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float, example: EncodedDecision | None = None, at: int = 0) -> None:
        """Count one value, with its decision, if any."""
        bucket = bisect_left(self._bounds, value)
        self._counts[bucket] += 1
        self._total += value
        if example is not None:
            self._examples[bucket] = Example(example, value, at)

    def observe_ages(self, stamps: list[int], now: int) -> None:
        """Count the age of each stamp, with one search a bucket.

        Args:
            stamps: milliseconds since 1970, in any order; sorted in place.
            now: the same unit. A stamp in the future has the age 0.
        """
        stamps.sort()
        many = len(stamps)
        if stamps[-1] > now:
            stamps = [min(stamp, now) for stamp in stamps]
        self._total += (now * many - sum(stamps)) / 1000
        counts, younger = self._counts, 0
        for bucket, bound in enumerate(self._bounds_ms):
            if younger == many:
                return
            within = many - bisect_left(stamps, now - bound)
            counts[bucket] += within - younger
            younger = within
        counts[-1] += many - younger

    def show(self, example: EncodedDecision, seconds: float, at: int) -> None:
        """Make a decision the example of its bucket, without counting it."""
        self._examples[bisect_left(self._bounds, seconds)] = Example(example, seconds, at)

    def buckets(self) -> Buckets:
        """Return the counts as they are now."""
        return Buckets(self._bounds, self._counts.copy(), self._total, tuple(self._examples.copy()))
