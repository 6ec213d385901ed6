"""As whom a door knows the client."""

from __future__ import annotations

import msgspec

from accountant.records.members import Role


class Membership(msgspec.Struct, frozen=True):
    """What the client may do on one dataset.

    Attributes:
        until: the first moment at which it is over, as a time of the log; None for never.
    """

    dataset: str
    roles: tuple[Role, ...]
    team: str | None = None
    until: str | None = None


class Me(msgspec.Struct, frozen=True):
    """Who the client is to the ledger.

    Attributes:
        name: what its requests and records have as `analyst`, `by` or `via`; None where nobody
            is known: without authentication, in a file, on Kafka.
        kind: by which kind of token the name was proved, `token` or `oidc`.
        administrator: whether the door's settings name it as one.
        authentication: whether this door knows who asks.
        datasets: what it may do on each.
    """

    name: str | None = None
    kind: str | None = None
    administrator: bool = False
    authentication: bool = False
    datasets: tuple[Membership, ...] = ()


decode_me = msgspec.json.Decoder(Me).decode
