"""A sealed log: its beginning is in an archive, and a snapshot replaces it.

A seal is a decision. It names the last archived decision, and the hashes of the state and of the
usage as they were before it. The log keeps decision 0, and every decision after the archived ones:

    0 | archived ... | kept ... | seal | ...
                       ids        from here on everything is folded and decided again

The kept decisions before the seal are those whose ids the partition may still remember; their sums
are in the snapshot already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from accountant.amounts import format_units, parse_units
from accountant.errors import LedgerFault, LogDamaged
from accountant.ledger.snapshots import snapshot
from accountant.partition import Partition, hash_of
from accountant.records import (
    DECODE_ERRORS,
    Decision,
    Genesis,
    PartitionRow,
    decode_decision,
    decode_partition_row,
    encode,
    partition_row_key,
)
from accountant.records.operator_records import Seal
from accountant.records.outcomes import Outcome
from accountant.records.state_rows import decode_row, key_of_row
from accountant.replay.replay import Replay, StateMismatch, check_genesis
from accountant.views.tallies import DecisionTally, Tallies, Tally

_BY: Final = ("analyst", "purpose", "day")
_FORGED: Final = (*DECODE_ERRORS, LedgerFault, ValueError, LookupError)


class SealSnapshot(NamedTuple):
    """The snapshot of a seal.

    Attributes:
        state: the rows of datasets, of members, of levels, of reservations, then the partition's:
            see `sealed_state`.
        usage: as `sealed_usage` returns it.
    """

    state: Sequence[bytes]
    usage: Sequence[bytes]


class _DatasetLine(msgspec.Struct, tag_field="type", tag="dataset"):
    dataset: str
    unit: str
    generation: int


class _SumLine(msgspec.Struct, tag_field="type", tag="usage"):
    dataset: str
    by: Literal["analyst", "purpose", "day"]
    key: str
    granted: int
    refused: int
    spent: str
    sequence: int
    decided_at: str


class _PartitionLine(msgspec.Struct, tag_field="type", tag="partition"):
    requests: int


_decode_usage = msgspec.json.Decoder(_DatasetLine | _SumLine | _PartitionLine).decode


def hash_of_lines(lines: Iterable[bytes]) -> str:
    """Return the hash of lines, as `sha256sum` has it of a file with them."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line + b"\n")
    return f"sha256:{digest.hexdigest()}"


def sealed_state(partition: Partition) -> list[bytes]:
    """Return all rows, the partition's last; equal states give equal bytes.

    Without the readings of odometers, and the checksum of rows that have them: they are floats,
    and another machine may have another last digit.
    """
    ledgers = (ledger for _, ledger in sorted(partition.ledgers.items()))
    rows = [encode(msgspec.structs.replace(snapshot(each), odometers={})) for each in ledgers]
    for table in partition.tables.values():
        rows += (value for _, value in table.rows())
    own = msgspec.structs.replace(partition.row(), checksum=msgspec.UNSET)
    return [*rows, encode(own)]


def sealed_usage(counted: DecisionTally) -> list[bytes]:
    """Return the sums of usage in the order in which their keys first came."""
    lines = [encode(_DatasetLine(name, *known)) for name, known in counted.datasets.items()]
    for by, tallies in zip(_BY, _tables(counted), strict=True):
        lines += [
            encode(
                _SumLine(
                    dataset,
                    by,  # type: ignore[arg-type]
                    key,
                    tally.granted,
                    tally.refused,
                    format_units(tally.spent),
                    tally.sequence,
                    tally.decided_at,
                )
            )
            for (dataset, key), tally in tallies.items()
        ]
    return [*lines, encode(_PartitionLine(counted.requests))]


def _tables(counted: DecisionTally) -> tuple[Tallies, ...]:
    return counted.analysts, counted.purposes, counted.days


def parse_usage(usage: Iterable[bytes]) -> DecisionTally:
    """Return the sums that `sealed_usage` has written.

    Raises: LogDamaged: they cannot be read.
    """
    counted = DecisionTally()
    tables = dict(zip(_BY, _tables(counted), strict=True))
    try:
        for each in map(_decode_usage, usage):
            if isinstance(each, _DatasetLine):
                counted.datasets[each.dataset] = each.unit, each.generation
            elif isinstance(each, _PartitionLine):
                counted.requests = each.requests
            else:
                tables[each.by][each.dataset, each.key] = Tally(
                    granted=each.granted,
                    refused=each.refused,
                    spent=parse_units(each.spent),
                    sequence=each.sequence,
                    decided_at=each.decided_at,
                )
    except (*DECODE_ERRORS, ValueError) as error:
        raise LogDamaged(f"the usage of the seal's snapshot cannot be read: {error}") from error
    return counted


def partition_row(sealed: SealSnapshot) -> PartitionRow:
    """Return the partition's row of a snapshot.

    Raises: LogDamaged: there is none that can be read.
    """
    try:
        return decode_partition_row(sealed.state[-1])
    except (*DECODE_ERRORS, IndexError) as error:
        raise LogDamaged(f"the snapshot of the seal cannot be read: {error}") from error


class SealedStart:
    """Takes the decisions of a sealed log up to its seal; then gives the state before that.

    Attributes:
        counted: the usage before the seal.
        first: hash of decision 0, once that is taken.
        kept: number of decisions before the seal, without decision 0.
        seal: once it is taken.

    Raises: LogDamaged: the snapshot cannot be read.
    """

    def __init__(
        self, genesis: Genesis | None, sealed: SealSnapshot, *, most_ids: int | None = None
    ) -> None:
        self._row = partition_row(sealed)
        self._genesis = self._row.genesis if genesis is None else genesis
        self._most_ids = most_ids
        self._hashes = hash_of_lines(sealed.state), hash_of_lines(sealed.usage)
        self._replay = self._with_rows(sealed)
        self._before: tuple[int, str] | None = None
        self._at_seal: Partition | None = None
        self.counted = parse_usage(sealed.usage)
        self.first: str | None = None
        self.decision_count = 0
        self.seal: Seal | None = None

    def _with_rows(self, sealed: SealSnapshot) -> Replay:
        replay = Replay(self._genesis, most_ids=self._most_ids)
        try:
            for value in sealed.state[:-1]:
                replay.take_row(key_of_row(decode_row(value)), value)
            replay.take_row(partition_row_key(self._genesis.partition), sealed.state[-1])
            _ = replay.start  # looks at the rows as a whole
        except (*DECODE_ERRORS, StateMismatch) as error:
            raise LogDamaged(f"the snapshot of the seal: {error}") from error
        return replay

    def take(self, value: bytes) -> Partition | None:
        """Take the next decision; with the seal return the state before it.

        Raises: LogDamaged: it is not what the snapshot belongs to.
        """
        try:
            return self._take(value, decode_decision(value))
        except StateMismatch as error:
            raise LogDamaged(f"the snapshot of the seal does not fit the log: {error}") from error
        except DECODE_ERRORS as error:
            raise LogDamaged(f"a decision before the seal cannot be read: {error}") from error

    def _take(self, value: bytes, decision: Decision) -> Partition | None:
        if self.first is None:
            if decision.partition_sequence != 0:
                raise LogDamaged(f"the log begins with decision {decision.partition_sequence}")
            if check_genesis(decision.genesis, self._genesis) != self._row.genesis:
                raise LogDamaged("the snapshot of the seal belongs to another ledger")
            self.first = hash_of(value)
            return None
        if self._at_seal is not None:
            self._check_seal(decision)
            return self._at_seal
        if self._before is None:
            self._before = decision.partition_sequence - 1, decision.previous
        self._replay.take_decision(value)
        self.decision_count += 1
        if decision.partition_sequence == self._row.partition_sequence:
            self._at_seal = self._replay.finish()
            for name in self._at_seal.ledgers:
                self._at_seal.checksum.forget(name)  # that of a row without its odometers
        return None

    def _check_seal(self, decision: Decision) -> None:
        """Check that a decision is the seal to which the snapshot belongs."""
        seal, number = decision.seal, decision.partition_sequence
        if decision.outcome is not Outcome.SEALED or seal is None:
            raise LogDamaged(f"decision {number} must be the seal of the snapshot")
        due = (self.first, *(self._before or (0, "")), *self._hashes)
        if due != (seal.first, seal.archived, seal.head, seal.state, seal.usage):
            raise LogDamaged(
                f"the seal, decision {number}, names another snapshot or another beginning: "
                f"{seal}, found {due}"
            )
        self.seal = seal


class SealedReplay:
    """Folds a sealed log without its rows of `state`; see `Replay`."""

    start: Final = None

    def __init__(
        self,
        genesis: Genesis,
        sealed: SealSnapshot,
        *,
        most_ids: int | None = None,
        instead_of: Replay | None = None,
    ) -> None:
        self._begin = SealedStart(genesis, sealed, most_ids=most_ids)
        self._instead_of = instead_of
        self._replay: Replay | None = None

    def take_decision(self, value: bytes) -> None:
        """Take the next decision of the log.

        Raises: LogDamaged: as `SealedStart.take` and `Replay.take_decision`.
        """
        if self._replay is None:
            partition = self._begin.take(value)
            if partition is None:
                return
            self._replay = Replay.resume(partition, instead_of=self._instead_of)
        self._replay.take_decision(value)

    def finish(self) -> Partition:
        """Return the state, after the last decision is taken.

        Raises: LogDamaged: as `Replay.finish`, or the log ends before its seal.
        """
        if self._replay is None:
            raise LogDamaged("the log ends before the seal of its snapshot")
        return self._replay.finish()


def next_seal(
    partition: Partition, counted: DecisionTally, first: str, before: tuple[int, str]
) -> Seal:
    """Return the seal that a partition's log gets next.

    Args:
        counted: the usage of the whole log.
        first: hash of decision 0.
        before: number and hash of the last decision that is in an archive.
    """
    return Seal(
        first=first,
        archived=before[0],
        head=before[1],
        state=hash_of_lines(sealed_state(partition)),
        usage=hash_of_lines(sealed_usage(counted)),
    )
