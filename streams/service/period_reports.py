"""Reads the decisions of a period for its report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from accountant.records.header import decode_header
from accountant.records.members import Member
from accountant.times import from_iso
from accountant.views.datasets import DatasetView
from accountant.views.period import Period
from accountant.views.period_report import PeriodReport, PeriodSums, period_report
from accountant.views.visibility import DatasetAccess
from streams.errors import Gone

_AT_A_TIME: Final = 1_000


class ReportSource(Protocol):
    """The parts that a report needs."""

    async def dataset(self, name: str) -> DatasetView | None: ...

    async def members(self, dataset: str) -> list[Member]: ...

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]: ...

    def ordered_before(self) -> int | None: ...


async def report_of_period(
    source: ReportSource, dataset: str, period: Period, *, access: DatasetAccess, now: int
) -> PeriodReport | None:
    """As `Service.report`; `now` in milliseconds since 1970.

    It reads from the period's first day to its last, and all later decisions where something was
    reserved: they may give it back.

    Raises: Unavailable.
    """
    view = await source.dataset(dataset)
    if view is None:
        return None
    sums = PeriodSums(period, access)
    after, is_whole = await _last_before(source, view, period.first)
    while after < view.sequence:
        try:
            values = await source.decisions(dataset, after=after, limit=_AT_A_TIME)
        except Gone as error:
            if error.after is None or error.after <= after:
                raise
            is_whole, after = False, error.after
            continue
        if not values:
            break
        # In a thread: to decode a thousand decisions takes some milliseconds.
        await asyncio.to_thread(sums.take, values)
        after += len(values)
        if sums.is_over and _is_ordered(source, period.last):
            break
    members: Sequence[Member] = await source.members(dataset)
    return await asyncio.to_thread(
        period_report,
        view,
        sums,
        members,
        period=period,
        access=access,
        now=now,
        is_whole=is_whole,
    )


async def _last_before(source: ReportSource, view: DatasetView, day: str) -> tuple[int, bool]:
    """Return the number of the last decision before a day, 0 where times do not tell the order.

    Also whether it is known that none of the decisions from that day on is in an archive.
    """
    if not day or not _is_ordered(source, day):
        return 0, True
    before, beyond, archived = 0, view.sequence + 1, 0
    while beyond - before > 1:
        middle = (before + beyond) // 2
        try:
            (value,) = await source.decisions(view.dataset, after=middle - 1, limit=1)
        except Gone as error:
            if error.after is None or error.after < middle:
                raise
            before = archived = min(error.after, beyond - 1)
            continue
        if decode_header(value).decided_at[:10] < day:
            before = middle
        else:
            beyond = middle
    return before, not archived or before > archived


def _is_ordered(source: ReportSource, day: str) -> bool:
    """Tell whether no decision of a day, or of an earlier one, comes behind one of a later day."""
    ordered = source.ordered_before()
    return ordered is None or from_iso(f"{day}T23:59:59.999Z") < ordered
