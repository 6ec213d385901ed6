"""A dataset's decisions, a page at a time, redacted for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.records import encode
from accountant.records.header import decode_header
from accountant.views.visibility import DatasetAccess, redact_decision, sees_decision
from streams.auth.principal import principal_of
from streams.http.context import HttpRequest
from streams.service.ledger_service import MAX_READ, LedgerService
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_BATCH: Final = 1_000


class _Part(NamedTuple):
    """Visible decisions, and the number of the last decision that was read."""

    shown: list[msgspec.Raw]
    last: int


async def page_of(
    service: LedgerService,
    dataset: str,
    access: DatasetAccess,
    *,
    after: int,
    maximum: int,
    max_read: int = MAX_READ,
) -> bytes:
    """Return a page of a dataset's decisions as JSON, with the number after which the next begins.

    Args:
        maximum: decisions on the page.
        max_read: decisions to read, since all of them may be other callers'.
    Raises: Gone: the next decision was archived. Unavailable.
    """
    page, last, examined = list[msgspec.Raw](), after, 0
    whole = access.sees_all
    while len(page) < maximum and examined < max_read:
        at_a_time = maximum if whole else min(_BATCH, max_read - examined)
        found = await service.decisions(dataset, after=last, limit=at_a_time)
        if not found:
            break
        # In a thread: a long page would block the event loop for 20 ms.
        part = await asyncio.to_thread(_part, found, access, maximum - len(page))
        page += part.shown
        last = part.last
        examined += len(found)
        if whole:
            break
    return encode({"decisions": page, "next": last})


def _part(found: Sequence[bytes], access: DatasetAccess, maximum: int) -> _Part:
    part, last = list[msgspec.Raw](), 0
    for value in found:
        line = decode_header(value)
        assert line.sequence is not None
        last = line.sequence
        if sees_decision(access, line):
            part.append(msgspec.Raw(redact_decision(access, line, value)))
            if len(part) == maximum:
                break
    return _Part(part, last)


def log_reading(request: HttpRequest, dataset: str | None, *, reads_others: bool) -> None:
    """Log that a caller reads other people's requests by the right of a role."""
    caller = principal_of(request)
    if caller is not None and reads_others:
        route = request.scope["path_template"]
        fields = {"name": caller.name, "administrator": caller.administrator}
        _log.info("others_requests_read", dataset=dataset, route=route, **fields)
