"""GET /me: the caller, as the server has authenticated them."""

from __future__ import annotations

import asyncio

from litestar import Response, get

from accountant.records import encode
from accountant.records.http_bodies import Me, Membership
from accountant.records.members import MemberRow
from streams.auth.principal import principal_of
from streams.auth.visibility import visibility_of
from streams.http.context import HttpRequest
from streams.http.problems import JSON


@get("/me", tags=["access"])
async def show_me(request: HttpRequest) -> Response[bytes]:
    """Return the caller: name, kind of token, and roles by dataset."""
    caller = principal_of(request)
    if caller is None:
        return Response(encode(Me()), media_type=JSON)
    # In a thread: there may be very many datasets.
    rows = await asyncio.to_thread(visibility_of(request).memberships)
    datasets = tuple(_membership(row) for row in rows)
    me = Me(caller.name, caller.kind, caller.administrator, authentication=True, datasets=datasets)
    return Response(encode(me), media_type=JSON)


def _membership(row: MemberRow) -> Membership:
    member = row.as_member
    return Membership(row.dataset, member.roles, member.team, member.until)
