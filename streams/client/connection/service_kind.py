"""Tells a ledger behind a server without its class, which imports httpx and is used late."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from streams.client.http.over_http import OverHttp

if TYPE_CHECKING:
    from streams.client.http.service import HttpService


def is_over_http(service: object) -> TypeGuard[HttpService]:
    """Tell whether a ledger is behind a server."""
    return isinstance(service, OverHttp)


def token_source_of(service: object) -> str | None:
    """Return where the client's token comes from, None if it sends none."""
    return service.token_source if is_over_http(service) else None
