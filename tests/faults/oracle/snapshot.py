"""The rows that a partition comes down to: docs/reference/records.md, State; decision 0043."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.expected import Fields, Readings

RULES: Final = 5


class Standing(Protocol):
    """What a row of a partition tells of it; see `Partition`."""

    genesis: Fields
    number: int
    head: str
    at: int
    floor: int
    next: dict[str, int]
    datasets: dict[str, Dataset]
    branch: int
    resets: tuple[int, int]
    key: str | None


def dataset_row(dataset: Dataset) -> Fields:
    """Return a dataset's row."""
    row: Fields = {
        "type": "snapshot",
        "version": 1,
        "dataset": dataset.name,
        "generation": 1,
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
    row |= {"exact": True, **dataset.members.counts()}
    if "population" in dataset.policy and dataset.granted_at is not None:
        row["granted_at"] = dataset.granted_at
    return row


def partition_row(partition: Standing) -> Fields:
    """Return a partition's own row, without the checksum of the others."""
    row: Fields = {
        "type": "partition",
        "version": 1,
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
    if members:
        row["members"] = members
    count, at = partition.resets
    if count:
        row |= {"resets": count, "reset_at": at}
    return row


def member_rows(partition: Standing) -> dict[bytes, Fields]:
    """Return the rows of all members, by their keys."""
    rows: dict[bytes, Fields] = {}
    for dataset in partition.datasets.values():
        rows |= dataset.members.rows(dataset.name)
    return rows


def sealed_state(partition: Standing) -> str:
    """Return the hash of all rows as a seal has it: no readings, no checksum."""
    rows = [
        # As the log writes the policy: the order of its fields is no rule.
        {**dataset_row(dataset), "policy": dataset.written, "odometers": {}}
        for _, dataset in sorted(partition.datasets.items())
    ]
    members = [row for _, row in sorted(member_rows(partition).items())]
    lines = [line(row) for row in (*rows, *members, partition_row(partition))]
    return f"sha256:{hashlib.sha256(b''.join(lines)).hexdigest()}"


def line(row: Mapping[str, Any]) -> bytes:
    """Return a row as it is written, with a line's end."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
