"""As whom the client comes to a ledger."""

from __future__ import annotations

from accountant.errors import RequestInvalid
from accountant.records.served import Me
from streams.client.http import HttpService
from streams.service import Service


def shows_token(service: Service | None) -> bool:
    """Tell whether a ledger is behind a door that a token is shown to."""
    return isinstance(service, HttpService) and service.has_token


async def me_of(service: Service) -> Me:
    """Return whom the ledger knows the client as; nobody in a file and on Kafka.

    Raises: Unauthenticated: the door knows no such token.
    """
    return await service.me() if isinstance(service, HttpService) else Me()


async def own_name(service: Service, field: str) -> str:
    """Return the name that requests and records have where none was given.

    Args:
        field: the field that wants it.
    Raises: RequestInvalid: the door knows nobody.
    """
    name = await service.own_name() if isinstance(service, HttpService) else None
    if name is None:
        rule = "must be given: authentication is off at this door, so that a token names nobody"
        raise RequestInvalid(field, rule, None)
    return name
