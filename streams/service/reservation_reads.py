"""Reads a dataset's open reservations, a page at a time."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol

from accountant.records.header import decode_header
from accountant.records.request_names import decode_request_details, names_in_request
from accountant.reservations.reservation import Reservation
from accountant.views.datasets import DatasetView
from accountant.views.reservations import (
    OpenReservations,
    ReservationPage,
    reservation_view,
)
from accountant.views.visibility import DatasetAccess
from streams.errors import Gone, Unavailable
from streams.log.async_log import AsyncLog

_MAX_READ: Final = 1_000
"""Decisions to read at most for the levels that broken reservations showed."""


class ReservationSource(Protocol):
    """The parts that a page of reservations needs."""

    def partition_of(self, dataset: str) -> int: ...

    async def open_reservations(self, dataset: str) -> OpenReservations: ...

    async def dataset(self, name: str) -> DatasetView | None: ...

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]: ...

    @property
    def log(self) -> AsyncLog: ...


async def reservations_of(
    source: ReservationSource,
    dataset: str,
    *,
    after: int,
    limit: int,
    access: DatasetAccess,
    now: int,
) -> ReservationPage:
    """As `Service.reservations`.

    Args:
        now: by this process's clock, milliseconds since 1970.
    """
    found = await source.open_reservations(dataset)
    partition = source.partition_of(dataset)
    mine = (row for row in found.rows if access.lists(row.analyst, row.via, row.sequence))
    rows = [row for row in mine if row.sequence > after][:limit]
    ids = {row.grant: await _request_id(source, partition, row) for row in rows}
    broken = {row.grant for row in rows if row.stage == "broken"}
    shown = dict[str, str]()
    if broken:
        with suppress(Unavailable):  # an index that is behind leaves out this field alone
            shown = await _shown_scopes(source, dataset, broken)
    views = [
        reservation_view(
            row,
            at=found.at,
            now=now,
            request_id=ids[row.grant],
            shown=shown.get(row.grant),
        )
        for row in rows
    ]
    return ReservationPage(tuple(views), rows[-1].sequence if rows else after)


async def _request_id(source: ReservationSource, partition: int, row: Reservation) -> str | None:
    """Return the id of the request that reserved, None where its decision is in an archive."""
    try:
        values = await source.log.read(partition, row.partition_sequence, 1)
    except Gone:
        return None
    return decode_request_details(decode_header(values[0]).request).request_id if values else None


async def _shown_scopes(
    source: ReservationSource, dataset: str, broken: set[str]
) -> dict[str, str]:
    """Return the level that each broken reservation showed, of the latest decisions."""
    view = await source.dataset(dataset)
    if view is None:
        return {}
    first = max(0, view.sequence - _MAX_READ)
    shown = dict[str, str]()
    while first < view.sequence:
        try:
            values = await source.decisions(dataset, after=first, limit=_MAX_READ)
        except Gone as error:
            if error.after is None or error.after <= first:
                break
            first = error.after
            continue
        for value in values:
            line = decode_header(value)
            update, first = line.reservation, line.sequence or first
            grant = names_in_request(line.request).grant
            if update is not None and update.stage == "broken" and grant in broken:
                shown[grant] = update.shown or ""
        if not values:
            break
    return shown
