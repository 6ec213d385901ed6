"""The rows that a partition comes down to: docs/reference/records.md, State; decision 0043."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.expected import Fields, Readings

RULES: Final = 3


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
    return {**row, "exact": True}


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
    return {**row, "key": partition.key} if partition.key else row


def sealed_state(partition: Standing) -> str:
    """Return the hash of all rows as a seal has it: no readings, no checksum."""
    rows = [
        # As the log writes the policy: the order of its fields is no rule.
        {**dataset_row(dataset), "policy": dataset.written, "odometers": {}}
        for _, dataset in sorted(partition.datasets.items())
    ]
    lines = [_line(row) for row in (*rows, partition_row(partition))]
    return f"sha256:{hashlib.sha256(b''.join(lines)).hexdigest()}"


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
