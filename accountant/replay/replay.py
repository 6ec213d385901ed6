"""Replay: rebuild a partition's state from its committed records.

A replay takes totals from the log and does not compute them, so it gives the same state under
any later rules. `audit` recomputes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from accountant.checksum import Checksum, crc_of_row, text_of
from accountant.errors import (
    BudgetError,
    LedgerFault,
    LogDamaged,
    MadeByNewerVersion,
    MadeByOtherVersion,
)
from accountant.ledger.snapshots import ledger_of_row, snapshot
from accountant.partition import NO_PREVIOUS, Partition, hash_of
from accountant.records import (
    DECODE_ERRORS,
    RULES,
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
from accountant.records.parts import by_dataset
from accountant.replay.apply import apply, parse_source, remember
from accountant.replay.check_admin_records import check_admin_rows
from accountant.replay.check_rows import ResetsRead, check_row, check_rows_found, miscounted_resets
from accountant.replay.state_witness import StateWitness, check_reaches
from accountant.replay.table_rows import ROWS, take_of_row
from accountant.times import from_iso

_FORGET_EVERY: Final = 4096
UNREADABLE: Final = (
    *DECODE_ERRORS,
    BudgetError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
)
"""The errors that decoding altered bytes can raise."""

# The fields that are settings.
_FIXED: Final = ("application", "partitions", "window_ms", "skew_ms", "placement")


class GenesisDiffers(LogDamaged):
    """The log began with other settings: correct the settings; the log is intact."""


class StateMismatch(LedgerFault):
    """The state rows do not agree with the log: replay from decision 0 without the rows."""


class Replay:
    """Fold state rows, then decisions, into a partition.

    With rows, a replay needs only the decisions whose ids clients may still repeat; without
    rows, every decision from 0. `finish` checks that rows and decisions fit together.

    Args:
        instead_of: the replay with rows that failed, if this one replaces it. The log must have
            every decision that the valid rows of that one include.
        gapless: offsets of inputs have no gaps, as in a ledger's file.
    """

    def __init__(
        self,
        genesis: Genesis,
        *,
        most_ids: int | None = None,
        instead_of: Replay | None = None,
        gapless: bool = False,
    ) -> None:
        self._genesis = genesis
        self._gapless = gapless
        self._partition = Partition(genesis, most_ids=most_ids)
        self._row: PartitionRow | None = None
        self._expected: tuple[int, str] | None = None
        self._unreadable: dict[bytes, Exception] = {}
        self._taken = 0
        self._agreeing = set[str]()  # datasets whose last decision was taken
        self._witness = None if instead_of is None else instead_of._as_witness()
        self._last: Decision | None = None
        self._next: dict[Source, int] = {}
        self._set_back = ResetsRead()

    @classmethod
    def resume(cls, partition: Partition, *, instead_of: Replay | None = None) -> Replay:
        """Return a replay of the decisions that follow those of a state."""
        replay = cls(partition.genesis, instead_of=instead_of)
        replay._partition = partition
        replay._expected = partition.sequence + 1, partition.head
        return replay

    def take_row(self, key: bytes, value: bytes | None) -> None:
        """Take a record of `state`; a later record of a key replaces an earlier one.

        `start` reports a row that cannot be read, unless a later record replaces it.
        Raises: MadeByOtherVersion: another version of this program has decided here.
        """
        self._unreadable.pop(key, None)
        partition = self._partition
        try:
            if key == partition_row_key(self._genesis.partition):
                self._row = decode_partition_row(value or b"")
            elif (take := take_of_row(key)) is not None:
                take(partition, key, value)
            elif value is None:
                name = key.decode(errors="replace")  # a key that is no UTF-8 names no ledger
                partition.ledgers.pop(name, None)
                partition.checksum.forget(name)
            else:
                ledger = ledger_of_row(decode_snapshot(value))
                if ledger.dataset.encode() != key:
                    raise ValueError(f"it holds dataset {ledger.dataset}")
                partition.ledgers[ledger.dataset] = ledger
                partition.checksum.put(ledger.dataset, crc_of_row(value))
        except MadeByOtherVersion:
            raise
        except UNREADABLE as error:
            self._unreadable[key] = error

    @property
    def start(self) -> int | None:
        """Time (milliseconds) from which decisions are needed, None for all of them.

        Ids above the floor were decided after floor - skew. Read this after the last row.
        Raises: StateMismatch: rows are missing, unreadable, or belong to another log.
        """
        for key, error in self._unreadable.items():
            raise StateMismatch(f"row {key[:80]!r} cannot be read: {error}") from error
        row = self._row
        if row is None:
            if self._partition.ledgers:
                raise StateMismatch("`state` has rows of datasets, but no row of the partition")
            return None
        if row.genesis.settings != self._genesis.settings:
            raise StateMismatch(f"state belongs to {row.genesis}, not to {self._genesis}")
        tables = self._partition.tables.items()
        for what, found, expected in (
            ("datasets", len(self._partition.ledgers), row.datasets),
            *((ROWS[name].words, table.count, row.count_of(name)) for name, table in tables),
        ):
            if found != expected:
                raise StateMismatch(
                    f"`state` has {found} {what}, but the partition's row says {expected}"
                )
        for rows in ROWS.values():
            if (wrong := rows.miscounted(self._partition)) is not None:
                raise StateMismatch(wrong)
        checksum = text_of(self._partition.checksum.total, row.clock_resets)
        if row.checksum is not msgspec.UNSET and row.checksum != checksum:
            raise StateMismatch(
                f"the rows of datasets, members and limits, and the clock resets, have the "
                f"checksum {checksum}, but the partition's row says {row.checksum}: a row is "
                "older than the partition's, or was changed"
            )
        return max(0, row.floor - self._genesis.skew_ms)

    def take_decision(self, value: bytes) -> None:
        """Take the next decision of the log.

        Raises:
            GenesisDiffers: the log began with other settings.
            LogDamaged: the decision cannot be read, or does not continue the chain.
            StateMismatch: the log continues after the rows.
            RowContradictsLog: a row does not agree with the last decision of its dataset.
        """
        after = self._expected[0] - 1 if self._expected else "none"
        try:
            self._take(value)
        except LedgerFault:
            raise
        except UNREADABLE as error:
            what = f"the record after decision {after} cannot be read: {error}"
            raise LogDamaged(what) from error

    def _take(self, value: bytes) -> None:
        decision = decode_decision(value)
        number = decision.partition_sequence
        if self._expected is None and self._row is None:
            self._expected = (0, NO_PREVIOUS)
        if self._expected is not None and (number, decision.previous) != self._expected:
            due = f"decision {self._expected[0]} after {self._expected[1]}"
            why = ", or the snapshot of an archived log is missing" if self._taken == 1 else ""
            raise LogDamaged(
                f"found decision {number} after {decision.previous}, expected {due}{why}"
            )
        if number == 0:
            self._begin(check_genesis(decision.genesis, self._genesis))
        if decision.rules > RULES:
            raise MadeByNewerVersion("rules", decision.rules, RULES)
        digest = hash_of(value)
        self._follow(decision)
        self._expected = (number + 1, digest)
        if self._row is None:
            if self._witness is not None:
                self._witness.check_head(number, digest)
            apply(self._partition, decision, digest)
        elif number > self._row.partition_sequence:
            raise StateMismatch(
                f"the log has decision {number}, but `state` ends at {self._row.partition_sequence}"
            )
        else:
            for part in by_dataset(decision):
                if check_row(self._partition, part):
                    self._agreeing.add(str(part.dataset))
            if decision.outcome.resets_clock and self._last is not None:
                self._partition.ids.forget(from_iso(self._last.floor))  # as `apply` does
            self._last = decision
            self._set_back = self._set_back.after(decision)
        remember(self._partition, decision, digest)
        self._taken += 1
        if self._taken % _FORGET_EVERY == 0:
            self._partition.ids.forget(from_iso(decision.floor))

    def _follow(self, decision: Decision) -> None:
        """Follow the offsets of inputs.

        Raises: LogDamaged: an offset is missing where none may be.
        """
        if decision.partition_sequence == 0 and self._gapless:
            self._next = {"requests": 0, "admin": 0}
        if decision.source is None:
            return
        source, offset = parse_source(decision.source.topic), decision.source.offset
        due = self._next.get(source, offset)
        if self._gapless and offset != due:
            raise LogDamaged(
                f"decision {decision.partition_sequence} is about input {offset} of {source}, but "
                f"the one before it about {due - 1}: decisions were removed from the log"
            )
        self._next[source] = offset + 1

    def _begin(self, genesis: Genesis) -> None:
        """Take the ledger's id from decision 0; a setting does not say it.

        Raises: StateMismatch: the partition's row names another ledger.
        """
        if self._row is not None and self._row.genesis != genesis:
            raise StateMismatch(f"state belongs to {self._row.genesis}, the log to {genesis}")
        self._partition.genesis = genesis

    @property
    def idle(self) -> dict[str, int]:
        """The datasets whose last decision was not taken, with its time by their rows."""
        if self._row is None:
            return {}
        ledgers = self._partition.ledgers.items()
        return {name: each.changed_at for name, each in ledgers if name not in self._agreeing}

    def check_idle(self, found: Iterable[bytes], sealed: Sequence[bytes]) -> None:
        """Compare the rows of idle datasets with decisions from anywhere in the log.

        Args:
            found: the decisions made when the rows of `idle` say, and perhaps later ones.
            sealed: the rows that replace an archived beginning of the log.
        Raises: RowContradictsLog: a row has no such decision, or does not agree with it.
        """
        check_rows_found(self._partition, self.idle, found, sealed)

    @property
    def believes_rows(self) -> bool:
        """Whether the state comes from rows."""
        return self._row is not None

    def check_admin_rows(self, decisions: Iterable[bytes], sealed: Sequence[bytes]) -> None:
        """Compare policies, members and limits in the rows with the decisions that set them.

        Args:
            decisions: all on records of administrators, in order, and perhaps others.
            sealed: the rows that replace an archived beginning of the log.
        Raises: RowContradictsLog: a row differs.
        """
        check_admin_rows(self._partition, decisions, sealed)

    def finish(self) -> Partition:
        """Return the state, after the last record is taken.

        Raises:
            StateMismatch: the rows belong to another log.
            LogDamaged: the log is empty, or ends before a decision that the rows include:
                nothing may be decided.
        """
        partition, row = self._partition, self._row
        if row is not None:
            if self._expected is not None:
                check_reaches(self._expected[0] - 1, row.partition_sequence)
            if self._expected != (row.partition_sequence + 1, row.head):
                raise StateMismatch(
                    f"`state` ends at decision {row.partition_sequence} with {row.head}, but the "
                    f"log before decision {self._expected}"
                )
            self._check_row(row)
            self._take_own_row(row)
        if partition.sequence < 0:
            raise LogDamaged(
                "the decision log is empty. If it is new, run `accountant topics create`. If it "
                "had decisions, restore it: nothing else records what was spent"
            )
        if self._witness is not None:
            self._witness.check(partition)
        partition.ids.forget(partition.floor)
        return partition

    def finish_rows(self) -> Partition:
        """Return the state of the rows alone, for a reader that compares no decision with them.

        Without the checksums of the rows, which only their writer needs.

        Raises: StateMismatch: rows are missing, unreadable, or not those of one moment.
        """
        _ = self.start  # compares the rows as a whole
        if self._row is None:
            raise StateMismatch("`state` has no row of the partition")
        self._take_own_row(self._row)
        self._partition.checksum = Checksum()
        return self._partition

    def _take_own_row(self, row: PartitionRow) -> None:
        partition = self._partition
        partition.genesis, partition.rules = row.genesis, row.rules
        partition.sequence, partition.head = row.partition_sequence, row.head
        partition.decided_at, partition.floor = row.decided_at, row.floor
        partition.branch, partition.key = row.branch or 0, row.key or None
        partition.resets = row.clock_resets
        partition.next = {"requests": row.next.requests, "admin": row.next.admin}

    def _check_row(self, row: PartitionRow) -> None:
        """Compare the row's times and offsets with the last decision; no dataset's row holds them.

        Raises: StateMismatch: they differ.
        """
        last = self._last
        assert last is not None
        stated = row.decided_at, row.floor
        due = from_iso(last.decided_at), from_iso(last.floor)
        followed = {source: getattr(row.next, source) for source in self._next}
        if stated != due or followed != self._next:
            raise StateMismatch(
                f"the partition's row has the times {stated} and the offsets {followed}, but "
                f"decision {last.partition_sequence} gives {due} and {self._next}"
            )
        wrong = miscounted_resets(self._partition, row, self._set_back)
        if wrong is not None:
            raise StateMismatch(wrong)

    def _as_witness(self) -> StateWitness:
        row = self._row
        if row is not None and row.genesis.settings != self._genesis.settings:
            return StateWitness(None, {})
        return StateWitness(row, self._partition.ledgers)


def check_genesis(found: Genesis | None, wanted: Genesis) -> Genesis:
    """Check that a log began with these settings; return the genesis that was found.

    Raises:
        GenesisDiffers: it began with other settings; the message names each with its right value.
        LogDamaged: it has no genesis, or is the log of another partition.
    """
    if found is None or found.partition != wanted.partition:
        raise LogDamaged(f"the log began as {found}, not as {wanted}")
    differing = [
        f"with {name} {was}, but the setting is {now}: set ACCOUNTANT_{name.upper()}={was}"
        for name in _FIXED
        if (was := getattr(found, name)) != (now := getattr(wanted, name))
    ]
    if differing:
        raise GenesisDiffers(f"the log began as one {', and '.join(differing)}")
    return found


def state_rows(partition: Partition) -> list[tuple[bytes, bytes]]:
    """Return every row of `state` for a partition, its own row last.

    Equal states give equal bytes, so comparing these rows compares two replays.
    """
    rows = [
        (name.encode(), encode(snapshot(ledger)))
        for name, ledger in sorted(partition.ledgers.items())
    ]
    for table in partition.tables.values():
        rows += table.rows()
    return [*rows, (partition_row_key(partition.genesis.partition), encode(partition.row()))]
