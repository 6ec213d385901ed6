"""Decides owners' records on a copy of the state: which of them would be refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import Decision, decode_decision
from accountant.records.inputs import CheckedInput, Input
from accountant.records.placement import record_key


def dry_run(
    partition_with: Callable[[str], Partition],
    dataset: str,
    records: Sequence[tuple[bytes, CheckedInput]],
    at: int,
) -> list[Decision]:
    """Return the decisions that owners' records would get, one after the other, all from one state.

    Any thread may call this: it tries again where another one commits meanwhile. Nothing changes.

    Args:
        partition_with: returns the partition of a dataset.
        records: bodies, and what checking them gave.
        at: milliseconds since 1970.
    Raises: Unavailable.
    """
    while True:
        partition = partition_with(dataset)
        moves = partition.moves
        try:
            found = _decided(partition, dataset, records, at) if moves % 2 == 0 else []
        except (KeyError, RuntimeError):  # a table changed while it was read
            if partition.moves == moves:
                raise
        if partition.moves == moves and moves % 2 == 0:
            return found
        time.sleep(0)


def _decided(
    partition: Partition, dataset: str, records: Sequence[tuple[bytes, CheckedInput]], at: int
) -> list[Decision]:
    draft, found = Draft(partition), list[Decision]()
    key = record_key(dataset, partition.genesis.placement).encode()
    for body, checked in records:
        offset = draft.next.get("admin", 0)
        record = Input("admin", offset, key, body, at, checked)
        found.append(decode_decision(decide(draft, record, at).value))
    return found
