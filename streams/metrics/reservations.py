"""Metrics of open reservations: how many in each state, and their first deadlines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from prometheus_client.core import Metric

from accountant.ledger import Ledger
from accountant.partition import Partition
from accountant.reservations.deadlines import ReservationCounts
from streams.metrics.text_families import TextFamily, label, line

_State = Literal["reserved", "begun", "lapsed", "broken", "final"]
_OPEN: Final = "privacy_reservations"
_EXPIRING: Final = "privacy_reservations_expiring"
_DEADLINE: Final = "privacy_reservation_deadline_timestamp_seconds"


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


def _counts(partition: Partition, ledger: Ledger, at: int) -> ReservationCounts | None:
    """Read between two commits: `Partition.moves` is odd while changes are taken in."""
    while True:
        moves = partition.moves
        counts = partition.reservations.counts(ledger.dataset, ledger.clock(at))
        if partition.moves == moves and moves % 2 == 0:
            return counts
        time.sleep(0)


def reservation_families(reservations: Mapping[str, ReservationCounts]) -> Iterator[Metric]:
    """Return the families of open reservations; datasets without any have no series."""
    counted, expiring, deadlines = list[str](), list[str](), list[str]()
    for dataset, counts in reservations.items():
        states: dict[_State, int] = {
            "reserved": counts.reserved,
            "begun": counts.begun,
            "lapsed": counts.lapsed,
            "broken": counts.broken,
            "final": counts.final,
        }
        for state, count in states.items():
            counted.append(_line(_OPEN, dataset, state, count))
        expiring.append(_line(_EXPIRING, dataset, "reserved", counts.reserved_expiring))
        expiring.append(_line(_EXPIRING, dataset, "begun", counts.begun_expiring))
        if counts.begin_until is not None:
            deadlines.append(_line(_DEADLINE, dataset, "reserved", counts.begin_until / 1000))
        if counts.settle_until is not None:
            deadlines.append(_line(_DEADLINE, dataset, "begun", counts.settle_until / 1000))
    yield TextFamily(_OPEN, "Open reservations, by state.", "gauge", counted)
    yield TextFamily(
        _EXPIRING, "Those of them that are in the last tenth of their time.", "gauge", expiring
    )
    yield TextFamily(_DEADLINE, "The first deadline of them, since 1970.", "gauge", deadlines)


def _line(family: str, dataset: str, state: _State, value: float) -> str:
    return line(family, ",".join([label("dataset", dataset), label("state", state)]), value)
