"""Rows of `state` against what administrators' records have set: policies, members, limits.

A dataset's last decision does not repeat them, so the decisions on all those records are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from accountant.asks.ask_table import AskTable
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged
from accountant.ledger.snapshots import ledger_of_row
from accountant.limits.apply import apply_record
from accountant.limits.state import Key, LimitState, after_end, limit_state_of, row_of, rule_row
from accountant.partition import Partition
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records import DECODE_ERRORS, Decision, Snapshot, decode_decision, encode
from accountant.records.asks import AskRow
from accountant.records.dataset_facts import NO_FACTS, DatasetFacts, facts_after
from accountant.records.limit_records import ScopeRow
from accountant.records.members import MemberRow
from accountant.records.parts import by_dataset
from accountant.records.state_rows import decode_row
from accountant.replay.apply import plan_of
from accountant.replay.asks import changes_asks, take_asks
from accountant.replay.check_rows import contradiction
from accountant.replay.members_and_limits import member_rows_set_by
from accountant.replay.plain_text import plain
from accountant.times import from_iso


class _Dataset(NamedTuple):
    plan: CompiledPolicy
    opened_at: int
    closed: bool
    facts: DatasetFacts


def _dataset_of(ledger: DatasetLedger) -> _Dataset:
    return _Dataset(ledger.plan, ledger.opened_at, ledger.closed, ledger.facts)


class _AdminDifference(NamedTuple):
    row: str
    field: str
    in_row: object
    in_log: object


def check_admin_rows(
    partition: Partition, decisions: Iterable[bytes], sealed: Sequence[bytes]
) -> None:
    """Compare rows with all that administrators' records have set.

    Args:
        decisions: in order, all on records of administrators among them.
        sealed: the rows that replace an archived beginning of the log.
    Raises: RowContradictsLog: a row differs.
    """
    log = _AdminState()
    try:
        for value in sealed[:-1]:
            log.begin(decode_row(value))
    except (*DECODE_ERRORS, ValueError) as error:
        raise LogDamaged(f"the snapshot of the seal cannot be read: {error}") from error
    for value in decisions:
        with suppress(*DECODE_ERRORS):  # damage: what it has set is then missing
            for decision in by_dataset(decode_decision(value)):
                log.take(decision)
    for row, field, in_row, in_log in log.differences(partition):
        raise contradiction(
            f"the row of {row} in `state` has {field} {plain(in_row)}; the log has {plain(in_log)}"
        )


class _AdminState:
    """What administrators' records have set, without what grants have used."""

    def __init__(self) -> None:
        self._datasets = dict[str, _Dataset]()
        self._sealed = dict[str, int]()  # number of a dataset's last decision before a seal
        self._members = dict[tuple[str, str], MemberRow]()
        self._levels = dict[Key, LimitState]()
        self._perhaps_ended = set[Key]()  # before their next record
        self._asks = AskTable()

    def begin(self, row: object) -> None:
        """Take a row of a seal's snapshot."""
        if isinstance(row, Snapshot):
            ledger = ledger_of_row(row)
            self._datasets[row.dataset] = _dataset_of(ledger)
            self._sealed[row.dataset] = ledger.sequence
        elif isinstance(row, MemberRow):
            self._members[row.dataset, row.member] = row
        elif isinstance(row, ScopeRow):
            level = limit_state_of(row)
            self._levels[level.key] = level
        elif isinstance(row, AskRow):
            self._asks.put(row)

    def take(self, decision: Decision) -> None:
        """Take a decision, as `apply` does."""
        dataset, sequence, at = decision.dataset, decision.sequence, from_iso(decision.decided_at)
        if dataset is None or sequence is None or sequence <= self._sealed.get(dataset, 0):
            return
        before = self._datasets.get(dataset)
        if decision.outcome.sets_policy:
            plan = plan_of(decision)
            before = before._replace(plan=plan) if before else _Dataset(plan, at, False, NO_FACTS)
        if before is None:
            return  # its opening is missing, which `differences` tells
        closed = before.closed or decision.outcome.closes
        facts = facts_after(before.facts, decision, dates_grants=before.plan.dates_grants)
        self._datasets[dataset] = _Dataset(before.plan, before.opened_at, closed, facts)
        if decision.owners or decision.member is not None:
            for name, row in member_rows_set_by(decision):
                self._members.pop((dataset, name), None)
                if row is not None:
                    self._members[dataset, name] = row
        if changes_asks(decision):
            take_asks(self._asks, decision)
        record = decision.limit
        if record is not None:
            key: Key = dataset, record.scope, "", record.name or ""
            level = self._levels.get(key)
            if level is not None and level.until is not None:
                if level.until <= at:
                    level = after_end(level, sequence)
                else:  # unless the clock was set back since
                    self._perhaps_ended.add(key)
            self._levels[key] = apply_record(level, dataset, record, before.plan, at, sequence)

    def differences(self, partition: Partition) -> Iterator[_AdminDifference]:
        """Yield each field of a row that is not as the records have set it."""
        for name, ledger in partition.ledgers.items():
            due = self._datasets.get(name)
            if due is None:
                yield _AdminDifference(
                    f"dataset {name}", "sequence", ledger.sequence, "no opening of it"
                )
                continue
            for field, in_row, in_log in _unequal(_dataset_of(ledger), due):
                yield _AdminDifference(f"dataset {name}", field, in_row, in_log)
        rows = {(row.dataset, row.member): row for row in partition.members}
        for dataset, name in sorted({*rows, *self._members}):
            member, wanted = rows.get((dataset, name)), self._members.get((dataset, name))
            if member != wanted:
                named = f"member {name} of dataset {dataset}"
                yield _AdminDifference(named, "row", member, wanted)
        unsure = self._perhaps_ended if partition.resets.number else set[Key]()
        levels = {
            level.key: _limit(level, of_share=level.key not in unsure)
            for level in partition.levels
            if level.rule is not None
        }
        limits = {
            key: _limit(level, of_share=key not in unsure)
            for key, level in self._levels.items()
            if level.rule
        }
        for level in partition.levels:
            record = self._levels.get(level.key)
            if record is None or record.until is None or level.rule is None or not level.rule.over:
                continue
            if record.until <= partition.decided_at or partition.resets.number:
                ended = after_end(record, record.sequence)
                limits[level.key] = _limit(ended, of_share=level.key not in unsure)
        yield from _asks_apart(partition.asks, self._asks)
        for key in sorted({*levels, *limits}):
            if levels.get(key) != limits.get(key):
                dataset, scope, _, name = key
                named = f"level {scope} {name}".rstrip() + f" of dataset {dataset}"
                yield _AdminDifference(named, "limit", levels.get(key), limits.get(key))


def _asks_apart(now: AskTable, due: AskTable) -> Iterator[_AdminDifference]:
    """Yield each ask whose row is not as the records have left it."""
    rows, wanted = ({(row.dataset, row.ask): row for row in table} for table in (now, due))
    for dataset, ask in sorted({*rows, *wanted}):
        found, logged = rows.get((dataset, ask)), wanted.get((dataset, ask))
        if found != logged:
            yield _AdminDifference(f"ask {ask} of dataset {dataset}", "row", found, logged)


def _unequal(now: _Dataset, due: _Dataset) -> Iterator[tuple[str, object, object]]:
    for field in due.plan.policy.__struct_fields__:
        in_row, in_log = getattr(now.plan.policy, field), getattr(due.plan.policy, field)
        if in_row != in_log:
            yield f"policy.{field}", in_row, in_log
    for field, in_row, in_log in (
        ("budget", now.plan.budget_wire, due.plan.budget_wire),
        ("opened_at", now.opened_at, due.opened_at),
        ("closed", now.closed, due.closed),
    ):
        if in_row != in_log:
            yield field, in_row, in_log
    if now.facts != due.facts:
        for field in DatasetFacts.__struct_fields__:
            in_row, in_log = getattr(now.facts, field), getattr(due.facts, field)
            if in_row != in_log:
                yield field, in_row, in_log


def _limit(level: LimitState, *, of_share: bool) -> str:
    """Return what a level's row has of its limit, without what was used under it.

    Args:
        of_share: with the version from which on its share counts.
    """
    rule = level.rule
    if rule is None:
        return encode([row_of(level).limit, None]).decode()
    # What was cut of a share is in no record that sets the limit.
    row = msgspec.structs.replace(rule_row(rule), cut=msgspec.UNSET, cut_by=msgspec.UNSET)
    if not of_share:
        row = msgspec.structs.replace(row, shared_since=msgspec.UNSET)
    return encode([row_of(level).limit, row]).decode()
