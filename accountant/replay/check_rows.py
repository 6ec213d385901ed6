"""Rows of `state` that are not as the last decision of their dataset has left them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Self

import msgspec

from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged
from accountant.ledger.snapshots import (
    held_row,
    remaining_wire,
    rounded_up_wire,
    snapshot,
    totals_wire,
)
from accountant.partition import Partition
from accountant.records import DECODE_ERRORS, Decision, PartitionRow, Snapshot, decode_decision
from accountant.records.dataset_facts import facts_set_by
from accountant.records.outcomes import Outcome, Reason
from accountant.records.parts import by_dataset
from accountant.records.person_pauses import pause_of
from accountant.records.records import HeldRow
from accountant.records.state_rows import decode_row
from accountant.replay.members_and_limits import differing_scopes, member_rows_set_by
from accountant.replay.plain_text import plain
from accountant.times import from_iso, iso

REMAKE_ROWS: Final = (
    "To make all rows again from the log, delete them (the table `state` of a ledger's file, the "
    "topic `state` on Kafka) and start"
)


class RowContradictsLog(LogDamaged):
    """A row of `state` has right checksums but differs from the log: somebody changed it."""


class _Difference(NamedTuple):
    field: str
    in_row: object
    in_log: object


def check_row(partition: Partition, decision: Decision) -> bool:
    """Compare a dataset's rows with a decision; return whether it is the dataset's last one.

    Decisions before the last one are not compared: the row is newer.

    Raises: RowContradictsLog: the rows are older than the decision, or differ from it.
    """
    dataset = decision.dataset
    if decision.sequence is None or dataset is None:
        return False
    ledger = partition.ledgers.get(dataset)
    sequence = 0 if ledger is None else ledger.sequence
    if ledger is not None and sequence > decision.sequence:
        return False
    differences = (
        _differences(partition, ledger, decision)
        if ledger is not None and sequence == decision.sequence
        else iter([_Difference("sequence", sequence, decision.sequence)])
    )
    for field, in_row, in_log in differences:
        raise contradiction(
            f"the row of dataset {dataset} in `state` has {field} {plain(in_row)}; "
            f"decision {decision.partition_sequence} of the log has {plain(in_log)}"
        )
    return True


def check_rows_found(
    partition: Partition,
    datasets: Iterable[str],
    found: Iterable[bytes],
    sealed: Sequence[bytes],
) -> None:
    """Compare the rows of some datasets with decisions, or with rows of a seal's snapshot.

    Args:
        found: decisions, the last one of each dataset among them unless it is archived.
        sealed: rows of the snapshot.
    Raises: RowContradictsLog: a row has no such decision, or does not agree with it.
    """
    wanted, agreeing = set(datasets), set[str]()
    for value in found:
        with suppress(*DECODE_ERRORS):  # damage: the row then has no decision
            for decision in by_dataset(decode_decision(value)):
                if decision.dataset in wanted and check_row(partition, decision):
                    agreeing.add(decision.dataset)
    missing = wanted - agreeing
    if missing and sealed:
        missing -= set(filter(None, map(partial(_unchanged_since_seal, partition), sealed[:-1])))
    for name in sorted(missing):
        ledger = partition.ledgers[name]
        raise contradiction(
            f"the row of dataset {name} in `state` has sequence {ledger.sequence}, decided at "
            f"{iso(ledger.changed_at)}; the log has no such decision at that time"
        )


def _unchanged_since_seal(partition: Partition, value: bytes) -> str | None:
    """Return which dataset's row is the one in a seal's snapshot, which has no odometers."""
    row = decode_row(value)
    if not isinstance(row, Snapshot) or row.dataset not in partition.ledgers:
        return None
    now = msgspec.structs.replace(snapshot(partition.ledgers[row.dataset]), odometers={})
    return row.dataset if row == now else None


def contradiction(what: str) -> RowContradictsLog:
    """Return the error of a row that is not as the log has it."""
    return RowContradictsLog(
        f"{what}. The checksums of the row are right, so it was changed on purpose. Nothing is "
        f"decided. Keep a copy and run `accountant audit`. {REMAKE_ROWS}"
    )


def _differences(
    partition: Partition, ledger: DatasetLedger, decision: Decision
) -> Iterator[_Difference]:
    yield from _unequal("generation", ledger.generation, decision.generation)
    for name, in_row, in_log in (
        ("totals", totals_wire(ledger), decision.totals),
        ("rounded_up", rounded_up_wire(ledger), decision.rounded_up),
        ("left", remaining_wire(ledger), decision.left),
    ):
        yield from _unequal_amounts(name, in_row or {}, in_log or {})
    if decision.outcome.closes or decision.reason is Reason.CLOSED:
        yield from _unequal("closed", ledger.closed, True)
    for name, fact in facts_set_by(decision, dates_grants=ledger.plan.dates_grants).items():
        yield from _unequal(name, getattr(ledger.facts, name), fact)
    if decision.pause is not None:
        pause = decision.pause
        kept = pause_of(ledger.facts.person_pauses, pause.member, pause.team)
        yield from _unequal("person_pauses", kept, None if _ends_pause(decision) else pause)
    held, stated = held_row(ledger), decision.held
    for field in HeldRow.__struct_fields__:
        yield from _unequal(f"held.{field}", *(getattr(row, field, None) for row in (held, stated)))
    yield from _unequal("guarantee", ledger.stated_guarantee, decision.guarantee or "")
    for name, member in (
        [] if not (decision.owners or decision.member) else member_rows_set_by(decision)
    ):
        found = partition.members.get(ledger.dataset, name)
        yield from _unequal(f"member {name}", found, member)
    for difference in differing_scopes(partition, decision):
        yield _Difference(*difference)


def _ends_pause(decision: Decision) -> bool:
    return decision.outcome is Outcome.MEMBER_RESUMED


def _unequal(field: str, in_row: object, in_log: object) -> Iterator[_Difference]:
    if in_row != in_log:
        yield _Difference(field, in_row, in_log)


def _unequal_amounts(
    field: str, in_row: Mapping[str, object], in_log: Mapping[str, object]
) -> Iterator[_Difference]:
    for name in dict.fromkeys([*in_row, *in_log]):
        yield from _unequal(f"{field}.{name}", in_row.get(name, "none"), in_log.get(name, "none"))


class ResetsRead(NamedTuple):
    """The resets among the decisions that were read.

    Attributes:
        times, at: how many, and to which time at last, in milliseconds.
        is_all: the log was read from its first decision on.
    """

    times: int = 0
    at: int = 0
    is_all: bool = False

    def after(self, decision: Decision) -> Self:
        """Return the same with the next decision."""
        found = self._replace(is_all=self.is_all or decision.partition_sequence == 0)
        if not decision.outcome.resets_clock:
            return found
        return found._replace(times=self.times + 1, at=from_iso(decision.decided_at))


def miscounted_resets(partition: Partition, row: PartitionRow, read: ResetsRead) -> str | None:
    """Return how a partition's row contradicts the log or the levels, in words.

    With other resets in the row, a period limit that is used up might have room again.
    """
    count, at = row.clock_resets
    fits = count == read.times if read.is_all else count >= read.times
    if not fits or (at != read.at if read.times else at and not count):
        since = "" if read.is_all else " or more"
        return (
            f"the partition's row has {count} clock resets, the last to {iso(at)}, but the "
            f"decisions have {read.times}{since}, the last to {iso(read.at)}"
        )
    levels = partition.levels.levels.values()
    usages = [level.period_usage for level in levels if level.period_usage is not None]
    maximum = max((usage.resets for usage in usages), default=0)
    if maximum > count:
        return f"the partition's row has {count} clock resets, but the row of a limit has {maximum}"
    return None
