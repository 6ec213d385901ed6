"""Whose name a request may be addressed to, where only this machine can send one."""

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
    """Tell whether only this machine can reach an address, in whatever letters it is written."""
    name = host.lower().removesuffix(".")  # the root of all names may be written or not
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def host_check(settings: Settings) -> Check | None:
    """Return what looks at each request first, None where other machines may ask, too.

    Nor behind a proxy or with a certificate, where the door has a name of its own, if it knows who
    asks: a page of another site has no token.
    """
    is_named = settings.authenticates and settings.is_private
    return _check_host if is_loopback(settings.listens_at) and not is_named else None


async def _check_host(request: Request[None, None, State]) -> Response[bytes] | None:
    """Refuse a page whose own name was pointed at this machine: it is not the owner."""
    host = request.headers.get("host", "")
    if is_loopback(re.sub(r":[0-9]*\Z", "", host)):
        return None
    rule = "must be localhost or a loopback address"
    return problem(421, "misdirected", f"host {rule}", field="host", rule=rule, value=host[:80])
