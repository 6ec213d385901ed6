"""GET /head: the end of the log, to be kept elsewhere."""

from __future__ import annotations

from litestar import Response, get

from accountant.records import encode
from streams.gateway.context import HttpRequest, context_of
from streams.gateway.problems import JSON


@get("/head", tags=["evidence"])
async def show_head(request: HttpRequest) -> Response[bytes]:
    """Return the number and hash of each partition's last decision.

    The hash covers the whole log up to there. Kept elsewhere, it shows later that nothing was cut
    off or written anew. Where this process signs checkpoints, `note` is the newest one.
    """
    found = await context_of(request).service.heads()
    return Response(encode(found), media_type=JSON)
