"""From committed records back to a partition's state.

Totals come from the log and are not computed again: a refold gives the same state whatever
rules are in force today. `audit` is what recomputes them.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

import msgspec

from accountant.checksum import crc_of_row, text_of
from accountant.clock import from_iso, issued_at
from accountant.errors import BudgetError, LedgerFault, LogDamaged
from accountant.ids import Remembered, decode_identity, id_key
from accountant.ledger import Ledger
from accountant.outcomes import Outcome, Reason
from accountant.partition import NO_PREVIOUS, Partition, hash_of
from accountant.plan import stored_plan
from accountant.records import (
    Decision,
    Genesis,
    PartitionRow,
    Source,
    decode_decision,
    decode_partition_row,
    decode_snapshot,
    encode,
    partition_row_key,
)
from accountant.snapshots import restored, snapshot, totals_from, totals_wire

_FORGET_EVERY: Final = 4096
# What bytes that somebody has changed can make of their reader.
_UNREADABLE: Final = (
    msgspec.MsgspecError,
    BudgetError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
)
_REMEMBERED: Final = frozenset(
    {Outcome.GRANTED, Outcome.REFUSED, Outcome.OPENED, Outcome.AMENDED, Outcome.CLOSED}
)


class StateMismatch(LedgerFault):
    """The state rows do not agree with the log: refold from decision 0, without them."""


class Refold:
    """Fold state rows, then decisions, into a partition.

    With rows, only the decisions whose ids may still be asked for are needed; without
    them, every decision from 0. `finish` tells whether it all fits together.
    """

    def __init__(self, genesis: Genesis, *, most_ids: int | None = None) -> None:
        self._genesis = genesis
        self._partition = Partition(genesis, most_ids=most_ids)
        self._row: PartitionRow | None = None
        self._expected: tuple[int, str] | None = None
        self._unreadable: dict[bytes, Exception] = {}
        self._taken = 0

    def take_row(self, key: bytes, value: bytes | None) -> None:
        """Take a record of `state`; later ones of a key replace earlier ones.

        A row that cannot be read is told of by `start`, unless a later one replaces it.
        """
        self._unreadable.pop(key, None)
        partition = self._partition
        try:
            if key == partition_row_key(self._genesis.partition):
                self._row = decode_partition_row(value or b"")
            elif value is None:
                name = key.decode()
                partition.ledgers.pop(name, None)
                partition.checksum.forget(name)
            else:
                ledger = restored(decode_snapshot(value))
                if ledger.dataset.encode() != key:
                    raise ValueError(f"it holds dataset {ledger.dataset}")
                partition.ledgers[ledger.dataset] = ledger
                partition.checksum.put(ledger.dataset, crc_of_row(value))
        except _UNREADABLE as error:
            self._unreadable[key] = error

    @property
    def start(self) -> int | None:
        """Time (milliseconds) from which decisions are needed, None for all of them.

        Ids above the floor were decided after floor - skew. To be read after the rows.
        Raises: StateMismatch: rows are missing, unreadable, or belong to another log.
        """
        for key, error in self._unreadable.items():
            raise StateMismatch(f"row {key[:80]!r} cannot be read: {error}") from error
        row = self._row
        if row is None:
            if self._partition.ledgers:
                raise StateMismatch("state holds datasets but no partition row")
            return None
        if row.genesis != self._genesis:
            raise StateMismatch(f"state belongs to {row.genesis}, not to {self._genesis}")
        if row.datasets != len(self._partition.ledgers):
            raise StateMismatch(
                f"state holds {len(self._partition.ledgers)} datasets, its row says {row.datasets}"
            )
        checksum = text_of(self._partition.checksum.total)
        if row.checksum is not msgspec.UNSET and row.checksum != checksum:
            raise StateMismatch(
                f"the rows of datasets have the checksum {checksum}, the partition's row says "
                f"{row.checksum}: one of them is older than it, or was changed"
            )
        return max(0, row.floor - self._genesis.skew_ms)

    def take_decision(self, value: bytes) -> Decision:
        """Take the next decision of the log.

        Raises:
            LogDamaged: it cannot be read, or does not continue the chain.
            StateMismatch: the rows do not agree with it.
        """
        after = self._expected[0] - 1 if self._expected else "none"
        try:
            return self._take(value)
        except LedgerFault:
            raise
        except _UNREADABLE as error:
            what = f"the record after decision {after} cannot be read: {error}"
            raise LogDamaged(what) from error

    def _take(self, value: bytes) -> Decision:
        decision = decode_decision(value)
        number = decision.partition_sequence
        if self._expected is None and self._row is None:
            self._expected = (0, NO_PREVIOUS)
        if self._expected is not None and (number, decision.previous) != self._expected:
            raise LogDamaged(
                f"decision {number} after {decision.previous} stands where decision "
                f"{self._expected[0]} after {self._expected[1]} must"
            )
        if number == 0 and decision.genesis != self._genesis:
            raise LogDamaged(f"the log began as {decision.genesis}, not as {self._genesis}")
        digest = hash_of(value)
        self._expected = (number + 1, digest)
        if self._row is None:
            apply(self._partition, decision, digest)
        elif number > self._row.partition_sequence:
            raise StateMismatch(
                f"the log is at decision {number}, state only at {self._row.partition_sequence}"
            )
        else:
            _compare(self._partition, decision)
        remember(self._partition, decision, digest)
        self._taken += 1
        if self._taken % _FORGET_EVERY == 0:
            self._partition.ids.forget(from_iso(decision.floor))
        return decision

    def finish(self) -> Partition:
        """Return the state, once every record was taken.

        Raises:
            StateMismatch: the rows are of another log.
            LogDamaged: the log ends before what the rows have seen, or has no genesis:
                nothing may be decided here.
        """
        partition, row = self._partition, self._row
        if row is not None:
            self._check_end(row)
            if self._expected != (row.partition_sequence + 1, row.head):
                raise StateMismatch(
                    f"state ends at decision {row.partition_sequence} with {row.head}, "
                    f"the log before decision {self._expected}"
                )
            partition.sequence, partition.head = row.partition_sequence, row.head
            partition.decided_at, partition.floor = row.decided_at, row.floor
            partition.next = {"requests": row.next.requests, "admin": row.next.admin}
        if partition.sequence < 0:
            raise LogDamaged(
                "the decision log is empty: run `accountant topics create` if it is new; if it "
                "held decisions, restore it, for what was spent is only known there"
            )
        partition.ids.forget(partition.floor)
        return partition

    def _check_end(self, row: PartitionRow) -> None:
        # Rows and decisions are written in one transaction, so a log that ends earlier has
        # lost decisions. To refold it all the same would give back what they spent.
        if self._expected is not None and self._expected[0] <= row.partition_sequence:
            raise LogDamaged(
                f"the log ends at decision {self._expected[0] - 1}, but state has seen decision "
                f"{row.partition_sequence}: restore the log, then run `accountant audit`; if "
                "state is of another log, delete it"
            )


def _compare(partition: Partition, decision: Decision) -> None:
    """Check the row of a decision's dataset, as far as the decision can tell.

    Raises: StateMismatch: the row is missing, older than the decision, or disagrees with it.
    """
    if decision.sequence is None or decision.dataset is None:
        return
    ledger = partition.ledgers.get(decision.dataset)
    if ledger is not None and ledger.sequence > decision.sequence:
        return
    if ledger is None or ledger.sequence < decision.sequence:
        raise StateMismatch(
            f"the row of dataset {decision.dataset} is older than decision "
            f"{decision.partition_sequence}"
        )
    if decision.totals != totals_wire(ledger):
        raise StateMismatch(
            f"the row of dataset {decision.dataset} does not have the totals of decision "
            f"{decision.partition_sequence}"
        )


def apply(partition: Partition, decision: Decision, digest: str) -> None:
    """Take one decision's effect on clock, floor, offsets and ledger, as the log states it.

    Raises: LogDamaged: the decision contradicts its dataset's ledger.
    """
    partition.sequence, partition.head = decision.partition_sequence, digest
    partition.decided_at = from_iso(decision.decided_at)
    partition.floor = from_iso(decision.floor)
    source = decision.source
    if source is not None:
        partition.next[_source(source.topic)] = source.offset + 1
    if decision.sequence is None or decision.dataset is None:
        return
    ledger = partition.ledgers.get(decision.dataset)
    expected = 1 if ledger is None else ledger.sequence + 1
    if decision.sequence != expected:
        raise LogDamaged(
            f"decision {decision.partition_sequence} is number {decision.sequence} of dataset "
            f"{decision.dataset}, which needs {expected}"
        )
    partition.ledgers[decision.dataset] = _after(ledger, decision, partition.decided_at)


def _after(ledger: Ledger | None, decision: Decision, at: int) -> Ledger:
    outcome = decision.outcome
    if outcome in {Outcome.OPENED, Outcome.AMENDED}:
        if decision.policy is None or decision.budget is None:
            raise LogDamaged(f"decision {decision.partition_sequence} has no policy")
        plan = stored_plan(decision.policy, tuple(decision.budget.values()))
        if ledger is None:
            return Ledger.opened(str(decision.dataset), plan, at)
        crossed = plan.count_crossed(plan.progress(ledger.totals), exhausted=ledger.exhausted)
        ledger = msgspec.structs.replace(ledger, plan=plan, crossed=crossed)
    if ledger is None:
        raise LogDamaged(f"decision {decision.partition_sequence} is of a dataset never opened")
    plan = ledger.plan
    mechanisms, totals = totals_from(plan, decision.totals or {})
    spent = plan.progress(totals)
    refused = decision.reason is Reason.EXHAUSTED
    return msgspec.structs.replace(
        ledger,
        sequence=ledger.sequence + 1,
        mechanisms=mechanisms,
        totals=totals,
        crossed=ledger.crossed + len(decision.crossed),
        exhausted=ledger.exhausted
        or (refused and spent >= plan.nearly)
        or spent >= plan.capacity[0],
        closed=ledger.closed or outcome is Outcome.CLOSED,
        changed_at=at,
        readings=ledger.readings if totals == ledger.totals else plan.readings(totals),
        halted=ledger.halted or (refused and bool(plan.policy.halt_on_refusal)),
    )


def remember(partition: Partition, decision: Decision, digest: str) -> None:
    """Remember the id that a decision was about, if its repeats are to be recognised."""
    if decision.outcome not in _REMEMBERED or decision.reason is Reason.OVERLOADED:
        return
    body = bytes(decision.request)
    if not body or decision.source is None:
        raise LogDamaged(f"decision {decision.partition_sequence} has no request")
    identity = decode_identity(body)
    issued = issued_at(identity.request_id)
    if issued is None or issued <= partition.floor:
        return
    who = identity.analyst or identity.by
    source = _source(decision.source.topic)
    key = id_key(source, identity.dataset, who, identity.request_id)
    remembered = Remembered(
        body_hash=hashlib.sha256(body).digest(),
        hash=bytes.fromhex(digest[7:]),
        partition_sequence=decision.partition_sequence,
        decided_at=from_iso(decision.decided_at),
        outcome=decision.outcome,
        reason=decision.reason,
        cost=None if decision.cost is None else _shared(tuple(decision.cost.items())),
    )
    partition.ids.add(issued, key, remembered)


@lru_cache(maxsize=16_384)
def _shared(cost: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return one dictionary for all equal costs: a copy each would double what ids take."""
    return dict(cost)


def state_rows(partition: Partition) -> list[tuple[bytes, bytes]]:
    """Return every row of `state` for a partition, its own row last.

    Equal states give equal bytes, so this is also how two refolds are compared.
    """
    rows = [
        (name.encode(), encode(snapshot(ledger)))
        for name, ledger in sorted(partition.ledgers.items())
    ]
    return [*rows, (partition_row_key(partition.genesis.partition), encode(partition.row()))]


def _source(topic: str) -> Source:
    if topic == "requests":
        return "requests"
    if topic == "admin":
        return "admin"
    raise LogDamaged(f"unknown source {topic}")
