"""Plain grants of a log in a run: each is decided again and added up, both by short code.

Nearly every record of a busy log is a plain grant: on one dataset, without limits, reservations or
a question. A run takes only such records, and only if nothing about them is wrong. `audit` takes
all others one by one and names what is wrong. So this code may doubt a right record, but it must
never accept a wrong one.

Each grant still passes two independent checks. `decide` must write exactly the record's bytes.
`_Sums` does not use `decide`: it adds up the log's own costs. At the end of a run, the ledgers of
`decide` must equal the ledgers that the log's amounts come to.

The sums of a run come first, then its decisions. In turns, both together take a fifth longer: each
evicts the other from the processor's caches.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import add
from typing import Final, Literal

import msgspec

from accountant.amounts import Units, format_units, parse_units
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.snapshots import format_reading
from accountant.partition import Partition, hash_of
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records import RULES, Origin
from accountant.records.inputs import Input
from accountant.records.request_names import RequestDetails, decode_request_details
from accountant.times import from_iso
from accountant.versions import Format
from accountant.views.tallies import DecisionTally, add_grant

MAX_RUN: Final = 256
"""The audit takes a run that turns out wrong again, record by record, so it is short."""

_GRANTED: Final = b'"outcome":"granted"'
_MECHANISMS: Final = len('{"mechanisms":')
_BEGIN: Final = 320  # the outcome of a grant is within so many bytes


class PlainGrant(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="decision",
):
    """A decision with the fields of a plain grant and no other ones; see `records.Decision`."""

    version: Format
    partition_sequence: int
    previous: str
    decided_at: str
    floor: str
    rules: int
    outcome: Literal["granted"]
    dataset: str
    generation: int
    sequence: int
    cost: msgspec.Raw
    totals: msgspec.Raw
    left: msgspec.Raw
    odometers: msgspec.Raw
    crossed: tuple[str, ...] = ()
    spent_ratio: float | None = None
    request: msgspec.Raw
    source: Origin


_decode_grant = msgspec.json.Decoder(PlainGrant).decode
_decode_cost = msgspec.json.Decoder(dict[str, str]).decode


@lru_cache(maxsize=4096)
def _texts(plan: CompiledPolicy) -> tuple[str, str, str]:
    """Return the texts of totals, of what is left and of odometers, with a place for each."""
    return (
        _object(['"mechanisms":%d', *_fields(plan.sums)]),
        _object(_fields(plan.kind.sums)),
        _object(_fields(plan.reader_names)),
    )


def _fields(names: Iterable[str]) -> list[str]:
    return [f'"{name}":"%s"' for name in names]


def _object(fields: list[str]) -> str:
    return f"{{{','.join(fields)}}}"


@lru_cache(maxsize=4096)
def _parse_cost(sums: tuple[str, ...], text: bytes) -> tuple[Units, ...]:
    """Return the amounts of a cost.

    Raises: ValueError: it is not one of these sums.
    """
    cost = _decode_cost(text)
    if tuple(cost) != sums:
        raise ValueError("a cost of other sums")
    return tuple(map(parse_units, cost.values()))


class _Sums:
    """What the log's own numbers come to in one dataset, for as long as it has plain grants.

    Numbers are compared as text, which is exact: each has one text.
    """

    __slots__ = (
        "changed_at",
        "crossed",
        "first_at",
        "ledger",
        "mechanisms",
        "sequence",
        "texts",
        "totals",
    )

    def __init__(self, ledger: DatasetLedger) -> None:
        self.ledger = ledger
        self.texts = _texts(ledger.plan)
        self.sequence = ledger.sequence
        self.mechanisms = ledger.mechanisms
        self.totals = ledger.totals
        self.crossed = 0
        self.first_at = self.changed_at = 0

    def take(self, grant: PlainGrant, at: int) -> Units | None:
        """Add a grant.

        Returns: its cost in the first sum; None, and nothing has changed, unless all of its
            numbers are right.
        """
        plan = self.ledger.plan
        if grant.sequence != self.sequence + 1 or grant.generation != self.ledger.generation:
            return None
        cost = _parse_cost(plan.sums, bytes(grant.cost))
        stated = bytes(grant.totals)
        mechanisms = int(stated[_MECHANISMS : stated.index(b",")])
        if mechanisms <= self.mechanisms:
            return None
        totals = tuple(map(add, self.totals, cost))
        of_totals, of_left, of_odometers = self.texts
        if (of_totals % (mechanisms, *map(format_units, totals))).encode() != stated:
            return None
        spent = totals[: plan.width]
        if not plan.kind.holds(plan.capacity, spent):
            return None
        remaining = map(format_units, plan.remaining(spent))
        if (of_left % (*remaining,)).encode() != bytes(grant.left):
            return None
        readings = map(format_reading, plan.readings(totals))
        if (of_odometers % (*readings,)).encode() != bytes(grant.odometers):
            return None
        self.sequence, self.mechanisms = grant.sequence, mechanisms
        self.totals = totals
        self.crossed += len(grant.crossed)
        self.first_at = self.first_at or at
        self.changed_at = at
        return cost[0]

    def result(self) -> DatasetLedger:
        """Return the ledger that the log's amounts come to, as `apply` gives it."""
        ledger, plan = self.ledger, self.ledger.plan
        exhausted = ledger.exhausted or plan.progress(self.totals) >= plan.most
        return msgspec.structs.replace(
            ledger,
            sequence=self.sequence,
            mechanisms=self.mechanisms,
            totals=self.totals,
            crossed=ledger.crossed + self.crossed,
            exhausted=exhausted,
            changed_at=self.changed_at,
            granted_at=ledger.granted_at or (self.first_at if plan.dates_grants else 0),
        )


def _is_plain(ledger: DatasetLedger) -> bool:
    """Tell whether the grants of a dataset are plain ones."""
    if ledger.pending:  # a decision may drop rows
        return False
    stopped = ledger.closed or ledger.facts.paused or ledger.halted or ledger.fractional
    changed = ledger.held is not None or ledger.guarantee or ledger.limits or ledger.levels
    plan = ledger.plan
    braked = plan.brake is not None
    return not (
        stopped or changed or braked or plan.ended is not None or not plan.additive
    ) and all(type(amount) is int for amount in ledger.totals)


class GrantRun:
    """A run of plain grants on top of a partition, which changes only at the end of the run.

    Args:
        decides: decide each grant again; False where another process does.

    Attributes:
        values: the records that were taken.
        sequence: the number of the last one.
    """

    def __init__(self, partition: Partition, *, gapless: bool, decides: bool = True) -> None:
        self.values: list[bytes] = []
        self.sequence = partition.sequence
        self._draft = Draft(partition)
        self._inputs: list[Input] = []
        self._partition = partition
        self._gapless = gapless
        self._decides = decides
        self._sums: dict[str, _Sums | None] = {}
        self._counted: list[tuple[PlainGrant, RequestDetails, Units]] = []
        self._floor = partition.floor
        self._decided_at = partition.decided_at
        self._offset = partition.next["requests"]

    def take(self, value: bytes) -> bool:
        """Take the next record.

        Returns: False, and the run is as before, if it is no plain grant, or its numbers are in
            doubt.
        """
        if _GRANTED not in value[:_BEGIN]:
            return False
        try:
            grant = _decode_grant(value)
            at, watermark = from_iso(grant.decided_at), from_iso(grant.floor)
            body = bytes(grant.request)
            sums = self._sums_of(grant.dataset)
            if sums is None or not self._is_next(grant, at, watermark) or not body:
                return False
            asked = decode_request_details(body)
            charged = sums.take(grant, at)
            if charged is None:
                return False
        except Exception:
            # A forged record may raise anything, such as OverflowError where a reading is no float.
            return False
        self._decided_at, self._floor, self._offset = at, watermark, grant.source.offset + 1
        self.sequence = grant.partition_sequence
        self.values.append(value)
        self._inputs.append(Input("requests", grant.source.offset, None, body, at))
        self._counted.append((grant, asked, charged))
        return True

    def _decide_again(self) -> bool:
        """Decide each grant into the draft; return whether exactly the records are written."""
        draft = self._draft
        for value, record, (grant, _, _) in zip(
            self.values, self._inputs, self._counted, strict=True
        ):
            if grant.previous != draft.head:
                return False
            try:
                decided = decide(draft, record, record.append_time)
            except Exception:
                return False
            if decided.value != value:
                return False
        return True

    def _follow(self) -> bool:
        """Move the draft past grants that another process decides again, if they are a chain."""
        draft, head = self._draft, self._draft.head
        for value, (grant, _, _) in zip(self.values, self._counted, strict=True):
            if grant.previous != head:
                return False
            head = hash_of(value)
        draft.sequence, draft.head_bytes = self.sequence, head.encode()
        draft.decided_at, draft.floor = self._decided_at, self._floor
        draft.next["requests"] = self._offset
        return True

    def _sums_of(self, dataset: str) -> _Sums | None:
        if dataset not in self._sums:
            ledger = self._partition.ledgers.get(dataset)
            plain = ledger is not None and _is_plain(ledger)
            self._sums[dataset] = _Sums(ledger) if plain and ledger is not None else None
        return self._sums[dataset]

    def _is_next(self, grant: PlainGrant, at: int, watermark: int) -> bool:
        """Return whether a grant continues the numbers, the clock and the inputs."""
        source = grant.source
        follows = source.offset == self._offset if self._gapless else source.offset >= self._offset
        return (
            follows
            and grant.partition_sequence == self.sequence + 1
            and grant.rules == RULES
            and source.topic == "requests"
            and source.partition == self._partition.genesis.partition
            and at >= self._decided_at
            and watermark >= self._floor
        )

    def end(self, counted: DecisionTally) -> bool:
        """Move the run into the partition, and count it.

        Returns: False, and nothing has changed, if the records are no chain, other bytes are
            decided, or the ledgers that were decided are not those that the log's amounts come to.
        """
        if not self.values:
            return True
        if not (self._decide_again() if self._decides else self._follow()):
            return False
        due = {
            name: sums.result()
            for name, sums in self._sums.items()
            if sums is not None and sums.changed_at
        }
        if not self._decides:
            self._draft.ledgers.update(due)
        elif due != self._draft.ledgers:
            return False
        self._draft.absorb()
        for grant, asked, charged in self._counted:
            add_grant(counted, grant.dataset, grant.sequence, grant.decided_at, asked, charged)
        return True
