"""One decision over several datasets, all or none: docs/reference/several-datasets.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.faults.oracle.dataset import Dataset, Grant, Verdict
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Clock
from tests.faults.oracle.reservations import Reservation
from tests.faults.oracle.steps import (
    breaks,
    is_permitted,
    refusal,
    said_of,
    said_of_pause,
    take_step,
)

_NOTHING: Fields = {}


def asked_of_all(
    datasets: Sequence[Dataset], request: Fields, said: Fields, clock: Clock, place: tuple[str, int]
) -> Verdict:
    """Decide a request: the first dataset that refuses refuses for all."""
    names = tuple(dataset.name for dataset in datasets)
    grants: list[Grant] = []
    for number, dataset in enumerate(datasets):
        part = _part(said, number)
        found = dataset.considered(request, part, clock, names)
        if not isinstance(found, Grant):
            return refused_by(datasets, number, found)
        waits = dataset.waits(found, request, clock, names)
        if waits is not None:
            return refused_by(datasets, number, waits)
        grants.append(found)
    now = _now(datasets, clock)
    verdicts = [
        dataset.grant(grant, request, _part(said, number), clock, now, place, names)
        for number, (dataset, grant) in enumerate(zip(datasets, grants, strict=True))
    ]
    return verdicts[0][0], None, {"parts": [more for _, _, more in verdicts]}


def step_in_all(datasets: Sequence[Dataset], step: Fields, said: Fields, clock: Clock) -> Verdict:
    """Decide a step that names the first dataset of its reservation: in all of them or in none."""
    rows = [dataset.reservations.open.get(step["grant"]) for dataset in datasets]
    first = rows[0]
    assert first is not None
    for number, dataset in enumerate(datasets):
        # Who holds the reservation is the same in all.
        if not is_permitted(dataset, step, first, clock.at):
            return _refused(datasets, number, "not_permitted", rows, step)
    if None in rows:
        return _refused(datasets, rows.index(None), "not_open", rows, step)
    found = [row for row in rows if row is not None]
    now = _now(datasets, clock)
    for number, (dataset, row) in enumerate(zip(datasets, found, strict=True)):
        reason = refusal(dataset, step, row, now)
        if reason is None:
            continue
        broken = reason == "beyond_maximum" and all(
            breaks(each, step, of, clock.at) for each, of in zip(datasets, found, strict=True)
        )
        if broken:
            for of in found:
                of.stage = "broken"
        return _refused(datasets, number, reason, rows, step, broken=broken)
    verdicts = [
        take_step(dataset, step, row, _part(said, number), clock)
        for number, (dataset, row) in enumerate(zip(datasets, found, strict=True))
    ]
    return verdicts[0][0], None, {"parts": [more for _, _, more in verdicts]}


def refused_by(datasets: Sequence[Dataset], number: int, verdict: Verdict) -> Verdict:
    """Return the refusal of all by one of them, whose part alone says more."""
    _, reason, more = verdict
    parts = [more if place == number else {} for place in range(len(datasets))]
    return "refused", reason, {"refused_by": datasets[number].name, "parts": parts}


def _refused(
    datasets: Sequence[Dataset],
    number: int,
    reason: str,
    rows: Sequence[Reservation | None],
    step: Fields,
    *,
    broken: bool = False,
) -> Verdict:
    parts = [said_of(row, step, broken=broken) for row in rows]
    parts[number] |= said_of_pause(datasets[number], reason, step)
    return "refused", reason, {"refused_by": datasets[number].name, "parts": parts}


def _now(datasets: Sequence[Dataset], clock: Clock) -> int:
    """Return the latest of the datasets' clocks."""
    return max(dataset.reservations.time(clock.at) for dataset in datasets)


def _part(said: Fields, number: int) -> Fields:
    """Return what the ledger says of one dataset, with the outcome for all."""
    parts: list[Any] = said.get("parts", [])
    part = parts[number] if number < len(parts) else _NOTHING
    return {**part, "outcome": said.get("outcome")}
