"""The open reservations of a process's partitions, for its metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable

from accountant.dataset_ledger import DatasetLedger
from accountant.partition import Partition
from accountant.reservations.deadlines import ReservationCounts


def open_reservations(partitions: Iterable[Partition], at: int) -> dict[str, ReservationCounts]:
    """Return the open reservations of each dataset that has some, in O(log n) for each.

    Another thread may change the partitions meanwhile; each dataset is as after some commit.

    Args:
        at: the time, milliseconds since 1970.
    """
    found = {}
    for partition in partitions:
        for dataset, ledger in partition.ledgers.copy().items():
            if ledger.held is not None:
                counts = _counts(partition, ledger, at)
                if counts is not None:
                    found[dataset] = counts
    return found


def _counts(partition: Partition, ledger: DatasetLedger, at: int) -> ReservationCounts | None:
    """Read between two commits: `Partition.moves` is odd while changes are taken in."""
    while True:
        moves = partition.moves
        counts = partition.reservations.counts(ledger.dataset, ledger.clock(at))
        if partition.moves == moves and moves % 2 == 0:
            return counts
        time.sleep(0)
