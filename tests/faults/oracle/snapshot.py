"""The rows of a partition's state: docs/reference/records/state.md; decision 0043."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tests.faults.oracle.approvals import approval_rows
from tests.faults.oracle.dataset import FACTS, Dataset
from tests.faults.oracle.expected import Fields, Readings
from tests.faults.oracle.limit_rows import level_rows
from tests.faults.oracle.reservation_rows import held_fields, reservation_rows

RULES: Final = 1


class RowFields(Protocol):
    """The fields of a partition's row; see `Partition`."""

    genesis: Fields
    number: int
    head: str
    at: int
    floor: int
    next: dict[str, int]
    datasets: dict[str, Dataset]
    branch: int
    key: str | None
    resets: int
    reset_at: int


def dataset_row(dataset: Dataset) -> Fields:
    """Return a dataset's row."""
    row: Fields = {
        "type": "snapshot",
        "version": 2,
        "dataset": dataset.name,
        "generation": dataset.generation,
        "sequence": dataset.sequence,
        "policy": dataset.policy,
        "budget": dataset.terms()["budget"],
        **dataset.spending(),
        "odometers": Readings(dataset.readings()),
        "crossed": dataset.crossed,
        "exhausted": dataset.exhausted,
        "closed": dataset.closed,
        "opened_at": dataset.opened_at,
        "changed_at": dataset.changed_at,
    }
    if dataset.halted:
        row["halted"] = True
    row |= dataset.members.counts()
    if "population" in dataset.policy and dataset.granted_at is not None:
        row["granted_at"] = dataset.granted_at
    levels = len(level_rows(dataset.name, dataset.division))
    counts = {"levels": levels, "limits": len(dataset.division.all_set())}
    row |= {name: count for name, count in counts.items() if count}
    facts = {name: fact for name, fact in dataset.facts.items() if fact != FACTS[name]}
    row |= {name: facts.pop(name) for name in ("closed_at", "paused") if name in facts}
    row |= held_fields(dataset.reservations, dataset.totals, dataset.changed_at)
    about = {
        "guarantee": dataset.reservations.guarantee,
        "note": dataset.reservations.note,
        "pending": len(dataset.approvals.rows),
    }
    return row | {name: text for name, text in about.items() if text} | facts


def partition_row(partition: RowFields) -> Fields:
    """Return a partition's own row, without the checksum of the others."""
    row: Fields = {
        "type": "partition",
        "version": 2,
        "rules": RULES,
        "genesis": partition.genesis,
        "partition_sequence": partition.number,
        "head": partition.head,
        "decided_at": partition.at,
        "floor": partition.floor,
        "next": partition.next,
        "datasets": len(partition.datasets),
    }
    if partition.branch:
        row["branch"] = partition.branch
    if partition.key:
        row["key"] = partition.key
    members = sum(len(dataset.members.all) for dataset in partition.datasets.values())
    levels = sum(len(level_rows(name, each.division)) for name, each in partition.datasets.items())
    count = sum(len(each.reservations.rows) for each in partition.datasets.values())
    more = {"members": members, "levels": levels, "reservations": count}
    more["pending"] = sum(len(each.approvals.rows) for each in partition.datasets.values())
    more["asks"] = sum(len(each.asks.all) for each in partition.datasets.values())
    more |= {"resets": partition.resets}
    more["reset_at"] = partition.reset_at
    return row | {name: count for name, count in more.items() if count}


def other_rows(partition: RowFields) -> dict[bytes, Fields]:
    """Return the rows of all members, then of all limits, reservations and asks, by their keys."""
    kinds = [_rows_by_kind(dataset) for dataset in partition.datasets.values()]
    found: dict[bytes, Fields] = {}
    for rows in zip(*kinds, strict=True):
        found |= dict(sorted((key, row) for each in rows for key, row in each.items()))
    return found


def rows_of(dataset: Dataset) -> dict[bytes, Fields]:
    """Return the rows of one dataset's members, limits, reservations and asks, by their keys."""
    return {key: row for rows in _rows_by_kind(dataset) for key, row in rows.items()}


def _rows_by_kind(dataset: Dataset) -> tuple[dict[bytes, Fields], ...]:
    name = dataset.name
    reservations = reservation_rows(name, dataset.reservations)
    waiting = approval_rows(dataset)
    asks = dataset.asks.rows(name)
    return (
        dataset.members.rows(name),
        level_rows(name, dataset.division),
        reservations,
        waiting,
        asks,
    )


def sealed_state(partition: RowFields) -> str:
    """Return the hash of all rows in a seal: without readings and checksum."""
    rows = [
        # As the log writes the policy: the order of its fields is no rule.
        {**dataset_row(dataset), "policy": dataset.written, "odometers": {}}
        for _, dataset in sorted(partition.datasets.items())
    ]
    others = other_rows(partition).values()
    lines = [line(row) for row in (*rows, *others, partition_row(partition))]
    return f"sha256:{hashlib.sha256(b''.join(lines)).hexdigest()}"


def line(row: Mapping[str, Any]) -> bytes:
    """Return a row in its written form, with a newline."""
    body = row.get("body")
    if body is None:
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    before, after = line({**row, "body": None}).split(b'"body":null', 1)
    return before + b'"body":' + body + after
