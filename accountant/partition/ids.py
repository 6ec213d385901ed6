"""The request ids that a partition remembers, so that no retry is charged twice.

Ids are stored in one bucket for each second of their time of issue. So forgetting all ids at or
below the expiry watermark takes no search.

A table may hold a million ids, so a decision is one object of bytes. What many decisions have in
common is stored once: outcome, reason and cost.
"""

from __future__ import annotations

import heapq
import struct
from binascii import unhexlify
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import Final

import msgspec

from accountant.records import Decision, First, Source
from accountant.records.header import DecisionHeader
from accountant.records.outcomes import Outcome, Reason
from accountant.times import iso

MAX_IDS: Final = 1_000_000
"""How many ids one partition remembers; about 240 bytes each."""

MAX_SHARED: Final = 65_536
"""How many results decisions may share: a number of two bytes says which."""

_BUCKET_MS: Final = 1000
_ID_BYTES: Final = 16
_TIME_BYTES: Final = 6
_NUMBER_BYTES: Final = 7
# Two hashes, the decision's number, and its time in two parts. A table appends the number of its
# shared result, two bytes. One byte more would take 16 more: Python's small objects are of
# multiples of 16 bytes, and this one is of 112.
_pack: Final = struct.Struct(f">32s32s{_NUMBER_BYTES}sHI").pack
_OUTCOMES: Final = tuple(Outcome)
_REASONS: Final[tuple[Reason | None, ...]] = (None, *Reason)
_GRANTED: Final = Outcome.GRANTED
_CODES: Final = {
    (outcome, reason): bytes([o, r])
    for o, outcome in enumerate(_OUTCOMES)
    for r, reason in enumerate(_REASONS)
}
_CODE_OF_GRANT: Final = _CODES[_GRANTED, None]
_RESULT: Final = 77  # where the number of the result is
_tail: Final = itemgetter(slice(_RESULT, None))


def id_key(source: Source, dataset: str, caller: str, request_id: str) -> bytes:
    """Return the key of an id: names hold no `/`, so no two ids share one.

    Args:
        request_id: a UUID, which takes 16 bytes of the key, its last ones.
    """
    return f"{source}/{dataset}/{caller}/".encode() + unhexlify(request_id.replace("-", ""))


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


def identities_in(line: Decision | DecisionHeader) -> tuple[tuple[str, str, str], ...]:
    """Return dataset, caller and id of what a decision is on: two of an owner's answer."""
    asked = decode_identity(line.request)
    # As `caller`, without the call: each decision that is followed comes here.
    own = asked.dataset, asked.analyst or asked.by, asked.request_id
    if not bytes(line.approval):
        return (own,)
    answer = decode_identity(line.approval)
    return own, (answer.dataset, answer.caller, answer.request_id)


def analyst_charged(decision: Decision | DecisionHeader) -> str:
    """Return whose request a decision charges or gives back: of a step, the reservation's."""
    if decision.reservation is not None:
        return decision.reservation.analyst
    return decode_identity(decision.request).analyst


class RememberedDecision(msgspec.Struct, frozen=True, gc=False):
    """A decision as its repeats need it, packed.

    Attributes:
        packed: SHA-256 of the canonical body, SHA-256 of the decision's bytes, and in 13 bytes its
            number in the partition and its time.
        code: its outcome and its reason.
        cost: as in the decision.
    """

    packed: bytes
    code: bytes
    cost: dict[str, str] | None

    @property
    def body_hash(self) -> bytes:
        """SHA-256 of the canonical body."""
        return self.packed[:32]

    @property
    def hash(self) -> bytes:
        """SHA-256 of the decision's bytes."""
        return self.packed[32:64]

    @property
    def partition_sequence(self) -> int:
        """The decision's number in its partition."""
        return int.from_bytes(self.packed[64:71])

    @property
    def decided_at(self) -> int:
        """The decision's time, milliseconds since 1970."""
        return int.from_bytes(self.packed[71:77])

    @property
    def outcome(self) -> Outcome:
        """The decision's outcome."""
        return _OUTCOMES[self.code[0]]

    @property
    def reason(self) -> Reason | None:
        """The decision's reason, None where it has none."""
        return _REASONS[self.code[1]]

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


def pack_decision(
    body_hash: bytes,
    digest: bytes,
    number: int,
    decided_at: int,
    outcome: Outcome,
    reason: Reason | None,
    cost: dict[str, str] | None,
) -> RememberedDecision:
    """Return a decision as its repeats need it.

    Args:
        body_hash: SHA-256 of the canonical body.
        digest: SHA-256 of the decision's bytes.
        number: the decision's, in its partition.
    """
    granted = outcome is _GRANTED and reason is None
    code = _CODE_OF_GRANT if granted else _CODES[outcome, reason]
    early, late = decided_at >> 32, decided_at & 0xFFFFFFFF
    packed = _pack(body_hash, digest, number.to_bytes(_NUMBER_BYTES), early, late)
    return RememberedDecision(packed, code, cost)


class _SharedResult:
    """An outcome, a reason and a cost, for as long as an id has them."""

    __slots__ = ("code", "cost", "number", "uses")

    def __init__(self, number: bytes, code: bytes, cost: dict[str, str] | None) -> None:
        self.number = number
        self.code = code
        self.cost = cost
        self.uses = 0


class _SharedResults:
    """The results of decisions by number. Equal costs share one if they are one object."""

    __slots__ = ("_by_number", "_found", "_free", "_maximum")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._by_number: dict[bytes, _SharedResult] = {}
        self._free: list[bytes] = []
        # By identity of the cost: an entry refers to its cost, so no other object gets that id.
        self._found: dict[tuple[bytes, int], _SharedResult] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def of(self, code: bytes, cost: dict[str, str] | None) -> _SharedResult | None:
        """Return the result of a decision, None if there are too many."""
        result = self._found.get((code, id(cost)))
        if result is not None:
            return result
        if self._free:
            number = self._free.pop()
        elif len(self._by_number) < self._maximum:
            number = len(self._by_number).to_bytes(2)
        else:
            return None
        result = _SharedResult(number, code, cost)
        self._by_number[number] = self._found[code, id(cost)] = result
        return result

    def unpack(self, stored: bytes) -> RememberedDecision:
        """Return a decision that a table stores with the number of its result."""
        result = self._by_number[stored[_RESULT:]]
        return RememberedDecision(stored[:_RESULT], result.code, result.cost)

    def release(self, stored: Iterable[bytes]) -> None:
        """Forget decisions, and with the last one of a result also that."""
        for number, count in Counter(map(_tail, stored)).items():
            result = self._by_number[number]
            result.uses -= count
            if not result.uses:
                del self._by_number[number], self._found[result.code, id(result.cost)]
                self._free.append(number)


_Stored = bytes | RememberedDecision


class IdTable:
    """Ids by time of issue. `get` is O(1), and so is `add` except for the first id of a second.

    `forget` takes time only for the ids that it forgets: every commit calls it, and a window has
    thousands of seconds.
    """

    __slots__ = ("_buckets", "_maximum", "_results", "_seconds", "_size")

    def __init__(self, maximum: int = MAX_IDS, *, max_shared: int = MAX_SHARED) -> None:
        """Create a table without ids.

        Args:
            maximum: the most ids.
            max_shared: the most results that ids share, up to `MAX_SHARED`. Above it, an id takes
                more memory.
        """
        self._buckets: dict[int, dict[bytes, _Stored]] = {}
        self._seconds: list[int] = []  # a heap of those that have a bucket
        self._results = _SharedResults(max_shared)
        self._maximum = maximum
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def maximum(self) -> int:
        """How many ids the table may hold."""
        return self._maximum

    @property
    def shared(self) -> int:
        """How many results the ids share."""
        return len(self._results)

    def get(self, issued: int, key: bytes) -> RememberedDecision | None:
        """Return what is remembered of an id issued at `issued` milliseconds."""
        bucket = self._buckets.get(issued // _BUCKET_MS)
        stored = None if bucket is None else bucket.get(key)
        return self._results.unpack(stored) if isinstance(stored, bytes) else stored

    def add(self, issued: int, key: bytes, remembered: RememberedDecision) -> None:
        """Remember an id."""
        self.add_all({key: (issued, remembered)})

    def add_all(self, ids: Mapping[bytes, tuple[int, RememberedDecision]]) -> None:
        """Remember ids, each with its time of issue."""
        results, replaced = self._results, list[_Stored]()
        bucket, result = dict[bytes, _Stored](), None
        last_second, last_code, last_cost = -1, b"", None  # most ids are like the one before
        for key, (issued, remembered) in ids.items():
            second = issued // _BUCKET_MS
            if second != last_second:
                bucket, last_second = self._bucket(second), second
            if key in bucket:
                replaced.append(bucket[key])
            code, cost = remembered.code, remembered.cost
            if code is not last_code or cost is not last_cost:
                result = results.of(code, cost)
                last_code, last_cost = code, cost
            if result is None:
                bucket[key] = remembered
            else:
                result.uses += 1
                bucket[key] = remembered.packed + result.number
        self._size += len(ids)
        if replaced:
            self._release(replaced)

    def _bucket(self, second: int) -> dict[bytes, _Stored]:
        bucket = self._buckets.get(second)
        if bucket is None:
            bucket = self._buckets[second] = {}
            heapq.heappush(self._seconds, second)
        return bucket

    def forget(self, watermark: int) -> None:
        """Drop the ids of every second that ends at or below the watermark."""
        last = (watermark + 1) // _BUCKET_MS
        while self._seconds and self._seconds[0] < last:
            self._release(self._buckets.pop(heapq.heappop(self._seconds)).values())

    def _release(self, stored: Collection[_Stored]) -> None:
        """Forget the decisions of ids."""
        self._size -= len(stored)
        self._results.release(each for each in stored if isinstance(each, bytes))

    def count_by_second(self, watermark: int) -> Counter[int]:
        """Return the number of ids issued above the watermark, by second of issue.

        Ids at or below it never count, even if they were not dropped yet. When they are dropped
        depends on the batches of the input, and no decision may depend on batches.
        """
        edge = watermark // _BUCKET_MS
        counts = Counter({second: len(b) for second, b in self._buckets.items() if second > edge})
        at_edge = self._buckets.get(edge, {})
        counts[edge] = sum(_issued(key) > watermark for key in at_edge)
        return counts


def _issued(key: bytes) -> int:
    """Return the time of issue in an id's key: a UUID of version 7 begins with it."""
    return int.from_bytes(key[-_ID_BYTES : _TIME_BYTES - _ID_BYTES])


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
