"""A dataset's decisions, a page at a time, as far as somebody sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.records import encode
from accountant.records.header import decode_header
from accountant.views.visibility import DatasetAccess, sees_decision, shown
from streams.auth.principal import principal_of
from streams.http.context import HttpRequest
from streams.logs import get_logger
from streams.service import MOST_READ, LedgerService

_log = get_logger(__name__)
_AT_A_TIME: Final = 1_000


class _Part(NamedTuple):
    """Decisions that are shown, and the number of the last one that was looked at."""

    shown: list[msgspec.Raw]
    last: int


async def page_of(
    service: LedgerService,
    dataset: str,
    standing: DatasetAccess,
    *,
    after: int,
    most: int,
    most_looked_at: int = MOST_READ,
) -> bytes:
    """Return a page of a dataset's decisions as JSON, with the number to go on after.

    Raises: Gone: the next decision was archived. Unavailable.
    """
    page, last, looked_at = list[msgspec.Raw](), after, 0
    whole = standing.sees_all
    while len(page) < most and looked_at < most_looked_at:
        at_a_time = most if whole else min(_AT_A_TIME, most_looked_at - looked_at)
        found = await service.decisions(dataset, after=last, most=at_a_time)
        if not found:
            break
        # In a thread: a long page would keep the loop from answering others for 20 ms.
        part = await asyncio.to_thread(_part, found, standing, most - len(page))
        page += part.shown
        last = part.last
        looked_at += len(found)
        if whole:
            break
    return encode({"decisions": page, "next": last})


def _part(found: Sequence[bytes], standing: DatasetAccess, most: int) -> _Part:
    part, last = list[msgspec.Raw](), 0
    for value in found:
        line = decode_header(value)
        assert line.sequence is not None
        last = line.sequence
        if sees_decision(standing, line):
            part.append(msgspec.Raw(shown(standing, line, value)))
            if len(part) == most:
                break
    return _Part(part, last)


def note_reading(request: HttpRequest, dataset: str | None, *, sees_all: bool) -> None:
    """Log that somebody reads what others have asked, where only their office lets them."""
    who = principal_of(request)
    if who is not None and sees_all:
        route = request.scope["path_template"]
        told = {"name": who.name, "administrator": who.administrator}
        _log.info("others_requests_read", dataset=dataset, route=route, **told)
