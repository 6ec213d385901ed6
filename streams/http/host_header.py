"""The Host check, which protects a server on the loopback from DNS rebinding.

A web page can point its own domain at 127.0.0.1 and then call this server from the owner's
browser. Such requests carry the page's domain in Host, and are rejected.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable

from litestar import Request, Response
from litestar.datastructures import State

from streams.http.problems import problem
from streams.settings import Settings

Check = Callable[[Request[None, None, State]], Awaitable[Response[bytes] | None]]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address; letter case is ignored."""
    name = host.lower().removesuffix(".")  # `localhost.` is a fully qualified `localhost`
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def names_loopback(host: str) -> bool:
    """Tell whether a Host header names this machine."""
    return is_loopback(re.sub(r":[0-9]*\Z", "", host))


def host_check(settings: Settings) -> Check | None:
    """Return the check of each request's Host header, None where other machines may connect.

    Nor is it needed with authentication behind a proxy or with a certificate: the server then has
    a domain of its own, and a page of another site has no token.
    """
    is_named = settings.authenticates and settings.is_private
    return None if is_named else host_check_at(settings.listens_at)


def host_check_at(address: str) -> Check | None:
    """Return the check of a server at an address, None where other machines may connect."""
    return _check_host if is_loopback(address) else None


async def _check_host(request: Request[None, None, State]) -> Response[bytes] | None:
    """Reject a request whose Host is not this machine."""
    host = request.headers.get("host", "")
    if names_loopback(host):
        return None
    rule = "must be localhost or a loopback address"
    return problem(421, "misdirected", f"host {rule}", field="host", rule=rule, value=host[:80])
