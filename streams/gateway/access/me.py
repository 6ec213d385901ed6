"""GET /me: as whom the door knows the one who asks."""

from __future__ import annotations

import msgspec
from litestar import Response, get

from accountant.records import encode
from streams.gateway.access.principal import Kind, principal_of
from streams.gateway.context import HttpRequest
from streams.gateway.problems import JSON


class Me(msgspec.Struct):
    """Who asks; without authentication a door knows nobody, and takes everybody for the owner.

    Attributes:
        name: what bodies must have as `analyst`, `by` or `via`.
        kind: by which kind of token the name was proved.
        administrator: whether the door's settings name it as one.
        authentication: whether this door knows who asks.
    """

    name: str | None = None
    kind: Kind | None = None
    administrator: bool = False
    authentication: bool = False


@get("/me", tags=["access"])
async def show_me(request: HttpRequest) -> Response[bytes]:
    """Return as whom the door knows the one who asks: name, kind of token, administrator or not."""
    who = principal_of(request)
    me = Me() if who is None else Me(who.name, who.kind, who.administrator, authentication=True)
    return Response(encode(me), media_type=JSON)
