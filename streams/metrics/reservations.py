"""Metrics of open reservations: how many in each state, and their first deadlines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from prometheus_client.core import Metric

from accountant.reservations.deadlines import ReservationCounts
from streams.metrics.text_families import TextFamily, label, line

_State = Literal["reserved", "begun", "lapsed", "broken", "final"]
_OPEN: Final = "privacy_reservations"
_EXPIRING: Final = "privacy_reservations_expiring"
_DEADLINE: Final = "privacy_reservation_deadline_timestamp_seconds"


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
