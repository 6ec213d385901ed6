"""The request ids that a partition remembers, so that no retry is charged twice.

Ids are stored in one bucket for each second of their time of issue. So forgetting all ids at or
below the expiry watermark takes no search.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Final

import msgspec

from accountant.records import First, Source
from accountant.records.outcomes import Outcome, Reason
from accountant.times import iso, issued_at

MAX_IDS: Final = 1_000_000
"""How many ids one partition remembers; about 400 bytes each."""

_BUCKET_MS: Final = 1000
_ID_LENGTH: Final = 36


def id_key(source: Source, dataset: str, caller: str, request_id: str) -> str:
    """Return the key of an id: names hold no `/`, so no two ids share one."""
    return f"{source}/{dataset}/{caller}/{request_id}"


class Identity(msgspec.Struct, frozen=True):
    """The part of an input that its id is made of: `analyst` of a request, else `by`."""

    request_id: str
    dataset: str
    analyst: str = ""
    by: str = ""

    @property
    def caller(self) -> str:
        """The analyst of a request, or the owner of an admin request."""
        return self.analyst or self.by


decode_identity = msgspec.json.Decoder(Identity).decode


class RememberedDecision(msgspec.Struct, frozen=True, gc=False):
    """A decision as its repeats need it; a struct, for there may be a million.

    Attributes:
        body_hash: SHA-256 of the canonical body.
        hash: of the decision's bytes, hexadecimal.
    """

    body_hash: bytes
    hash: bytes
    partition_sequence: int
    decided_at: int
    outcome: Outcome
    reason: Reason | None
    cost: dict[str, str] | None

    def first(self) -> First:
        """Return the decision as the decision on a repeat shows it."""
        return First(
            partition_sequence=self.partition_sequence,
            decided_at=iso(self.decided_at),
            outcome=self.outcome,
            hash=f"sha256:{self.hash.hex()}",
            reason=self.reason,
            cost=self.cost,
        )


class IdTable:
    """Ids by time of issue. `get` is O(1), and so is `add` except for the first id of a second.

    `forget` takes time only for the ids that it forgets: every commit calls it, and a window has
    thousands of seconds.
    """

    __slots__ = ("_buckets", "_maximum", "_seconds", "_size")

    def __init__(self, maximum: int = MAX_IDS) -> None:
        self._buckets: dict[int, dict[str, RememberedDecision]] = {}
        self._seconds: list[int] = []  # a heap of those that have a bucket
        self._maximum = maximum
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def maximum(self) -> int:
        """How many ids the table may hold."""
        return self._maximum

    def get(self, issued: int, key: str) -> RememberedDecision | None:
        """Return what is remembered of an id issued at `issued` milliseconds."""
        bucket = self._buckets.get(issued // _BUCKET_MS)
        return None if bucket is None else bucket.get(key)

    def add(self, issued: int, key: str, remembered: RememberedDecision) -> None:
        """Remember an id."""
        second = issued // _BUCKET_MS
        bucket = self._buckets.get(second)
        if bucket is None:
            bucket = self._buckets[second] = {}
            heapq.heappush(self._seconds, second)
        self._size += key not in bucket
        bucket[key] = remembered

    def forget(self, watermark: int) -> None:
        """Drop the ids of every second that ends at or below the watermark."""
        last = (watermark + 1) // _BUCKET_MS
        while self._seconds and self._seconds[0] < last:
            self._size -= len(self._buckets.pop(heapq.heappop(self._seconds)))

    def count_by_second(self, watermark: int) -> Counter[int]:
        """Return the number of ids issued above the watermark, by second of issue.

        Ids at or below it never count, even if they were not dropped yet. When they are dropped
        depends on the batches of the input, and no decision may depend on batches.
        """
        edge = watermark // _BUCKET_MS
        counts = Counter({second: len(b) for second, b in self._buckets.items() if second > edge})
        at_edge = self._buckets.get(edge, {})
        counts[edge] = sum((issued_at(key[-_ID_LENGTH:]) or 0) > watermark for key in at_edge)
        return counts


def second_of(issued: int) -> int:
    """Return the second that an id is counted in."""
    return issued // _BUCKET_MS


def oldest_tenth(counts: Counter[int]) -> int:
    """Return the time of issue, in milliseconds, of the end of the oldest tenth."""
    total, counted = counts.total(), 0
    for second in sorted(counts):
        counted += counts[second]
        if counted * 10 >= total:
            return (second + 1) * _BUCKET_MS - 1
    return 0


def end_of_second_before(at: int) -> int:
    """Return the last millisecond of a whole second that is not after `at`."""
    return (at + 1) // _BUCKET_MS * _BUCKET_MS - 1
