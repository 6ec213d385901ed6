"""Reading: datasets, their usage, members, decisions, and the log's head."""

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
from accountant.views.datasets import DatasetView
from accountant.views.usage import BYS
from accountant.views.visibility import redact_decision, sees_decision
from streams.auth.decision_pages import log_reading, page_of
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.gateway.paging import FEW, after_parameter, limit_parameter, read_page, whole_number
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, list_response, problem
from streams.http.refusal import forbidden

_SLICE: Final = 200  # datasets encoded between two yields: well below a millisecond
_MOST: Final = 10_000


@get("/datasets", tags=["datasets"], media_type=JSON)
async def list_datasets(
    request: HttpRequest,
    after: Annotated[
        str,
        QueryParameter(description="only datasets whose name sorts after this one, by code point"),
    ] = "",
    limit: Annotated[
        str | None,
        QueryParameter(
            description="the maximum number of datasets; without it, all",
            # Litestar would describe an integer that is also text or null.
            schema_extra={"one_of": None, "type": "integer", "minimum": 1, "maximum": _MOST},
        ),
    ] = None,
) -> Stream:
    """Return every visible dataset and its current state, by name.

    With `limit`, at most so many. The last name, as the next `after`, gives the next page.
    """
    maximum = None if limit is None else whole_number("limit", limit, 1, _MOST)
    views = await context_of(request).service.datasets()
    visibility = visibility_of(request)
    if not visibility.is_whole:
        views = await asyncio.to_thread(visibility.among, views)
    first = bisect_right(views, after, key=attrgetter("dataset"))
    redact_decision = views[first:] if maximum is None else views[first : first + maximum]
    return Stream(_encoded(await visibility.with_joint(redact_decision)), media_type=JSON)


async def _encoded(views: Sequence[DatasetView]) -> AsyncIterator[bytes]:
    """Yield a JSON array slice by slice, so that a large one is never whole in memory."""
    yield b"["
    for first in range(0, len(views), _SLICE):
        body = encode(views[first : first + _SLICE])[1:-1]
        yield b"," + body if first else body
        await asyncio.sleep(0)  # a fast reader would otherwise starve other requests
    yield b"]"


@get("/datasets/{dataset:str}", tags=["datasets"])
async def show_dataset(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return one dataset and its current state."""
    visibility = visibility_of(request)
    found = await visibility.dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    (view,) = await visibility.with_joint([found[0]])
    return Response(encode(view), media_type=JSON)


@get("/datasets/{dataset:str}/usage", tags=["datasets"])
async def show_usage(
    request: HttpRequest,
    dataset: FromPath[str],
    by: Annotated[
        str,
        QueryParameter(description="the key of the rows", schema_extra={"enum": list(BYS)}),
    ] = "analyst",
) -> Response[bytes]:
    """Return who used a dataset, by analyst, purpose, day or month.

    A caller who may not see others' requests gets their own row only, a lead those of the team,
    and 403 for any other key.
    """
    service = context_of(request).service
    known = next((each for each in BYS if each == by), None)
    if known is None:
        raise RequestInvalid("by", f"must be one of {', '.join(BYS)}", by)
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    log_reading(request, dataset, reads_others=access.reads_others)
    what = f"usage?by={known}"
    if known == "analyst":
        usage = await service.usage(dataset)
        visible = [row for row in usage if access.sees_requests or access.is_shown(row.analyst)]
        return list_response(dataset, what, encode(visible))
    if not access.sees_requests:
        why = (
            f"usage by {known} shows everybody's requests, which you may not see on dataset "
            f"{dataset}; ask for your own usage: by=analyst"
        )
        raise forbidden(request, "read", why, field="by", value=by)
    rows = await service.usage_by(dataset, known)
    return list_response(dataset, what, encode([row.as_named_row(known) for row in rows]))


@get("/datasets/{dataset:str}/requests", tags=["requests"])
async def list_requests(
    request: HttpRequest,
    dataset: FromPath[str],
    after: Annotated[str, after_parameter("only decisions after this number in the dataset")] = "0",
    limit: Annotated[str, limit_parameter("the maximum number of decisions")] = str(FEW),
) -> Response[bytes]:
    """Return the decisions on a dataset in their order, a page at a time.

    `next` is the next page's `after`. If it equals the `after` that was sent, there are no more
    decisions yet. A page may be shorter than `limit`. For a caller who may not see others'
    requests, it may be empty before the end, when the next 5,000 decisions are others'. A decision
    without a number in the dataset, such as a repeat, is on no page. 410 when the next decisions
    are in an archive of the log, with the `after` to continue from.
    """
    first, maximum = read_page(after, limit)
    service = context_of(request).service
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    log_reading(request, dataset, reads_others=access.reads_others)
    page = await page_of(service, dataset, access, after=first, maximum=maximum)
    return list_response(dataset, f"requests?after={first}&limit={maximum}", page)


@get("/datasets/{dataset:str}/requests/{request_id:str}", tags=["requests"])
async def show_decision(
    request: HttpRequest,
    dataset: FromPath[str],
    request_id: FromPath[str],
    analyst: Annotated[
        str, QueryParameter(description="the request's analyst, or the `by` of an admin request")
    ],
) -> Response[bytes]:
    """Return the first decision on a recent request, for as long as its id is remembered.

    404 while the request is not decided, and for decisions that are not remembered: `invalid`,
    `expired` and `overloaded`. So do not poll for long, but send the same bytes again.
    """
    found = await context_of(request).service.find(dataset, analyst, request_id)
    if found is not None:
        access = visibility_of(request).at(dataset)
        line, found = visibility_of(request).of_decision(dataset, found)
        if access is not None and sees_decision(access, line):
            if analyst != access.name:
                log_reading(request, dataset, reads_others=access.reads_others)
            return Response(redact_decision(access, line, found), media_type=JSON)
    if await visibility_of(request).dataset(dataset) is None:
        return await unknown_dataset(request, dataset)
    return problem(
        404,
        "not_found",
        f"no decision on this request of {analyst[:100]} is remembered: it is not decided yet; or "
        "it was invalid, expired or overloaded; or its id is older than the window; or somebody "
        "else sent it: name the sender by ?analyst=NAME. Do not poll for long: send "
        "the same bytes again, and the response is the decision, charged only once. For an older "
        f"one, run `accountant log export --id {request_id[:100]}`",
        field="request_id",
        rule="must be of a request decided within the window",
        value=request_id[:100],
    )


@get("/datasets/{dataset:str}/reservations", tags=["requests"])
async def list_reservations(
    request: HttpRequest,
    dataset: FromPath[str],
    after: Annotated[
        str,
        after_parameter("only reservations that were decided after this number in the dataset"),
    ] = "0",
    limit: Annotated[str, limit_parameter("the maximum number of reservations")] = str(FEW),
) -> Response[bytes]:
    """Return a dataset's open reservations in the order of their decisions, a page at a time.

    Owners, auditors and administrators see all of them, a lead those of the team; everybody else
    their own, and those that they made for others. `next` is the next page's `after`; if it equals
    the `after` that was sent, there are no more. `state` is by the log's clock, `deadline_passed`
    by this server's.
    """
    first, maximum = read_page(after, limit)
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    log_reading(request, dataset, reads_others=access.reads_others)
    service = context_of(request).service
    page = await service.reservations(dataset, after=first, limit=maximum, access=access)
    what = f"reservations?after={first}&limit={maximum}"
    return list_response(dataset, what, encode(page))


@get("/datasets/{dataset:str}/pending", tags=["requests"])
async def list_pending(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return a dataset's requests that wait for approval, in the order of their decisions.

    Owners, auditors and administrators see all of them, a lead those of the team; everybody else
    their own, and those that they made for others. There are at most 1,000.
    """
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    log_reading(request, dataset, reads_others=access.reads_others)
    waiting = await context_of(request).service.pending(dataset, access=access)
    return list_response(dataset, "pending", encode(waiting))


@get("/head", tags=["evidence"])
async def show_head(request: HttpRequest) -> Response[bytes]:
    """Return the number and hash of each partition's last decision.

    The hash covers the whole log up to that decision. Stored elsewhere, it later proves that the
    log was neither cut nor rewritten. If this process signs checkpoints, `note` is the newest one.
    """
    found = await context_of(request).service.heads()
    return Response(encode(found), media_type=JSON)


@get("/datasets/{dataset:str}/members", tags=["access"])
async def list_members(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return a dataset's members by name, expired ones included.

    Owners, auditors and administrators see all members, a lead those of the team; everybody else
    their own entry.
    """
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    members = await context_of(request).service.members(dataset)
    members = [member for member in members if access.is_shown(member.member)]
    return list_response(dataset, "members", encode(members))
