"""GET /datasets/{dataset}/members: who may do what on a dataset."""

from __future__ import annotations

from litestar import Response, get
from litestar.params import FromPath

from accountant.records import encode
from streams.gateway.access.sight import sight_of
from streams.gateway.context import HttpRequest, context_of
from streams.gateway.problems import list_of, never_opened


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
