"""GET /datasets/{dataset}/overview: all that the caller sees of a dataset, in one answer."""

from __future__ import annotations

import asyncio

from litestar import Response, get
from litestar.params import FromPath

from accountant.records import encode
from streams.auth.decision_pages import log_reading
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import caller_of
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON


@get("/datasets/{dataset:str}/overview", tags=["datasets"])
async def show_overview(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return all that the caller sees of a dataset: what its page shows.

    Each part is what its own route shows the same caller: `dataset`, `members`, `limits` (all of
    them, those of a led team, or none), `budget` (the caller's own), `why`, and usage by analyst,
    day and purpose. `requests` has the latest 20: everybody's for those who see all, else the
    caller's own, and those of a team that the caller leads.
    """
    overview = await context_of(request).service.overview(dataset, caller_of(request))
    if overview is None:
        return await unknown_dataset(request, dataset)
    caller = overview.caller
    reads_others = caller.sees_all or "lead" in caller.roles
    log_reading(request, dataset, reads_others=reads_others)
    # In a thread: usage by day and purpose may be long.
    return Response(await asyncio.to_thread(encode, overview), media_type=JSON)
