"""GET /me: as whom the door knows the one who asks."""

from __future__ import annotations

import asyncio

import msgspec
from litestar import Response, get

from accountant.records import encode
from accountant.records.members import MemberRow, Role
from streams.auth.principal import Kind, principal_of
from streams.auth.visibility import sight_of
from streams.http.context import HttpRequest
from streams.http.problems import JSON


class Membership(msgspec.Struct, omit_defaults=True):
    """What the one who asks may do on a dataset.

    Attributes:
        until: the first moment at which it is over; left out for never.
    """

    dataset: str
    roles: tuple[Role, ...]
    team: str | None = None
    until: str | None = None


class Me(msgspec.Struct):
    """Who asks; without authentication a door knows nobody, and takes everybody for the owner.

    Attributes:
        name: what bodies must have as `analyst`, `by` or `via`.
        kind: by which kind of token the name was proved.
        administrator: whether the door's settings name it as one.
        authentication: whether this door knows who asks.
        datasets: those that have the one who asks as a member, with what is in force.
    """

    name: str | None = None
    kind: Kind | None = None
    administrator: bool = False
    authentication: bool = False
    datasets: tuple[Membership, ...] = ()


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
