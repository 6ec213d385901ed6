"""What can be read: datasets, who used them, and recent decisions."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from operator import attrgetter
from typing import Annotated, Final

from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from accountant.errors import RequestInvalid
from accountant.records import encode
from accountant.records.header import decode_header
from accountant.views.datasets import DatasetView
from accountant.views.usage import BYS
from accountant.views.visibility import sees_decision, shown
from streams.auth.decision_pages import note_reading, page_of
from streams.auth.visibility import sight_of
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, list_of, never_opened, problem
from streams.http.refusal import forbidden

_SLICE: Final = 200  # datasets encoded at a turn of the loop: well below a millisecond
_MOST: Final = 10_000
_MOST_DECISIONS: Final = 1_000
_FEW_DECISIONS: Final = 100
_LARGEST_NUMBER: Final = 2**53 - 1  # the largest that every reader of JSON has exactly


@get("/datasets", tags=["datasets"], media_type=JSON)
async def list_datasets(
    request: HttpRequest,
    after: Annotated[
        str, QueryParameter(description="a name: those after it alone, in the order of characters")
    ] = "",
    limit: Annotated[
        str | None,
        QueryParameter(
            description="how many at most; without it, all",
            # Else an integer that is also text or null, which nothing is.
            schema_extra={"one_of": None, "type": "integer", "minimum": 1, "maximum": _MOST},
        ),
    ] = None,
) -> Stream:
    """Return every dataset as it stands, by name.

    With `limit`, so many at most; the last one's name as the next `after` gives the next ones.
    """
    most = None if limit is None else _whole("limit", limit, 1, _MOST)
    views = await context_of(request).service.datasets()
    sight = sight_of(request)
    if not sight.is_whole:
        views = await asyncio.to_thread(sight.among, views)
    first = bisect_right(views, after, key=attrgetter("dataset"))
    shown = views[first:] if most is None else views[first : first + most]
    return Stream(_encoded(await sight.with_joint(shown)), media_type=JSON)


def _whole(field: str, text: str, least: int, most: int) -> int:
    """Return a number in a query. Text comes in, for an error that tells its rule.

    Raises: RequestInvalid: it is no whole number within the bounds.
    """
    # Length first: nobody's thousand digits are made a number.
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if digits and least <= int(text) <= most:
        return int(text)
    raise RequestInvalid(field, f"must be a whole number from {least} to {most}", text)


async def _encoded(views: Sequence[DatasetView]) -> AsyncIterator[bytes]:
    """Yield a JSON array slice by slice: the whole of a large one is never in memory."""
    yield b"["
    for first in range(0, len(views), _SLICE):
        body = encode(views[first : first + _SLICE])[1:-1]
        yield b"," + body if first else body
        await asyncio.sleep(0)  # a reader that is quick enough would never let others have a turn
    yield b"]"


@get("/datasets/{dataset:str}", tags=["datasets"])
async def show_dataset(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return one dataset as it stands."""
    sight = sight_of(request)
    found = await sight.dataset(dataset)
    if found is None:
        return never_opened(dataset)
    (view,) = await sight.with_joint([found[0]])
    return Response(encode(view), media_type=JSON)


@get("/datasets/{dataset:str}/usage", tags=["datasets"])
async def show_usage(
    request: HttpRequest,
    dataset: FromPath[str],
    by: Annotated[
        str,
        QueryParameter(description="what the rows are by", schema_extra={"enum": list(BYS)}),
    ] = "analyst",
) -> Response[bytes]:
    """Return who used a dataset, by analyst, purpose, day or month.

    Who does not see what others ask gets their own row alone, and nothing by purpose or time.
    """
    service = context_of(request).service
    known = next((each for each in BYS if each == by), None)
    if known is None:
        raise RequestInvalid("by", f"must be one of {', '.join(BYS)}", by)
    found = await sight_of(request).dataset(dataset)
    if found is None:
        return never_opened(dataset)
    _, standing = found
    note_reading(request, dataset, sees_all=standing.sees_all)
    what = f"usage?by={known}"
    if known == "analyst":
        usage = await service.usage(dataset)
        own = standing.name
        seen = [row for row in usage if standing.sees_requests or row.analyst == own]
        return list_of(dataset, what, encode(seen))
    if not standing.sees_requests:
        why = "usage by anything but the analyst is for those who see what all have asked"
        raise forbidden(request, "read", why, field="by", value=by)
    rows = await service.usage_by(dataset, known)
    return list_of(dataset, what, encode([row.named(known) for row in rows]))


def _integer(least: int, most: int, *, default: int) -> dict[str, object]:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


@get("/datasets/{dataset:str}/requests", tags=["requests"])
async def list_requests(
    request: HttpRequest,
    dataset: FromPath[str],
    after: Annotated[
        str,
        QueryParameter(
            description="the number of a decision in the dataset: those after it alone",
            schema_extra=_integer(0, _LARGEST_NUMBER, default=0),
        ),
    ] = "0",
    limit: Annotated[
        str,
        QueryParameter(
            description="how many at most",
            schema_extra=_integer(1, _MOST_DECISIONS, default=_FEW_DECISIONS),
        ),
    ] = str(_FEW_DECISIONS),
) -> Response[bytes]:
    """Return the decisions on a dataset in their order, a page at a time.

    `next` is the next page's `after`; where it is the `after` that was given, that is the end, from
    which it goes on later. A page may be shorter than `limit`; to who does not see what others ask,
    it may be empty before the end, where the next 5,000 decisions are of others. A decision without
    a number in the dataset, such as a repeat, is in no page. 410 where the next decisions are in an
    archive of the log, with the `after` to read on from.
    """
    first = _whole("after", after, 0, _LARGEST_NUMBER)
    most = _whole("limit", limit, 1, _MOST_DECISIONS)
    service = context_of(request).service
    seen = await sight_of(request).dataset(dataset)
    if seen is None:
        return never_opened(dataset)
    _, standing = seen
    note_reading(request, dataset, sees_all=standing.sees_all)
    page = await page_of(service, dataset, standing, after=first, most=most)
    return list_of(dataset, f"requests?after={first}&limit={most}", page)


@get("/datasets/{dataset:str}/requests/{request_id:str}", tags=["requests"])
async def show_decision(
    request: HttpRequest,
    dataset: FromPath[str],
    request_id: FromPath[str],
    analyst: Annotated[
        str, QueryParameter(description="who asked; of an admin record, who it is by")
    ],
) -> Response[bytes]:
    """Return the first decision on a recent request: the index keeps the window of ids."""
    found = await context_of(request).service.find(dataset, analyst, request_id)
    if found is not None:
        standing = sight_of(request).at(dataset)
        line = decode_header(found)
        if standing is not None and sees_decision(standing, line):
            if analyst != standing.name:
                note_reading(request, dataset, sees_all=standing.sees_all)
            return Response(shown(standing, line, found), media_type=JSON)
    return problem(
        404,
        "not_found",
        "not among the recent decisions; for older ones: "
        f"accountant log export --id {request_id[:100]}",
        field="request_id",
        rule="must be of a request decided within the window",
        value=request_id[:100],
    )


@get("/head", tags=["evidence"])
async def show_head(request: HttpRequest) -> Response[bytes]:
    """Return the number and hash of each partition's last decision.

    The hash covers the whole log up to there. Kept elsewhere, it shows later that nothing was cut
    off or written anew. Where this process signs checkpoints, `note` is the newest one.
    """
    found = await context_of(request).service.heads()
    return Response(encode(found), media_type=JSON)


@get("/datasets/{dataset:str}/members", tags=["access"])
async def list_members(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return a dataset's members by name, those whose time is over among them.

    Owners, auditors and administrators see all of them, everybody else their own entry.
    """
    found = await sight_of(request).dataset(dataset)
    if found is None:
        return never_opened(dataset)
    _, standing = found
    members = await context_of(request).service.members(dataset)
    if not standing.sees_all:
        members = [member for member in members if member.member == standing.name]
    return list_of(dataset, "members", encode(members))
