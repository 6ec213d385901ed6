"""GET /me: as whom the door knows the one who asks."""

from __future__ import annotations

import asyncio

from litestar import Response, get

from accountant.records import encode
from accountant.records.http_bodies import Me, Membership
from accountant.records.members import MemberRow
from streams.auth.principal import principal_of
from streams.auth.visibility import sight_of
from streams.http.context import HttpRequest
from streams.http.problems import JSON


@get("/me", tags=["access"])
async def show_me(request: HttpRequest) -> Response[bytes]:
    """Return as whom the door knows the one who asks: name, kind of token, roles by dataset."""
    who = principal_of(request)
    if who is None:
        return Response(encode(Me()), media_type=JSON)
    # Beside the loop: there may be very many datasets.
    rows = await asyncio.to_thread(sight_of(request).memberships)
    datasets = tuple(_membership(row) for row in rows)
    me = Me(who.name, who.kind, who.administrator, authentication=True, datasets=datasets)
    return Response(encode(me), media_type=JSON)


def _membership(row: MemberRow) -> Membership:
    told = row.told
    return Membership(row.dataset, told.roles, told.team, told.until)
