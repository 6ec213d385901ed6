"""Reads `/readyz` of a server, of a worker, or of their port for probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import httpx
import msgspec

from accountant.records import DECODE_ERRORS
from streams.client.http.bearer import is_this_machine, tls_verification
from streams.client.http.problems import check_certificate, not_a_gateway
from streams.client.http.token_auth import TokenAuth
from streams.client.requests.requests import error_text
from streams.errors import Unavailable

_TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 1 << 20
_STATUS: Final = {200: True, 503: False}


class ServerReadiness(msgspec.Struct, frozen=True, kw_only=True):
    """What `/readyz` answers.

    Attributes:
        ready: whether requests are decided; of a gateway, whether it follows the decisions.
        reasons: why not, each with the next step; None where the server does not show them to
            this caller.
        notes: problems that keep no request from being decided.
    """

    ready: bool
    reasons: Sequence[str] | None = None
    notes: Sequence[str] = ()


_decode = msgspec.json.Decoder(ServerReadiness).decode


def read_readiness(url: str, auth: TokenAuth | None) -> ServerReadiness:
    """Ask a server whether it is ready.

    Args:
        url: `http://host:port`, without a path.
    Raises: Unavailable: it does not answer.
        Refused: its certificate is not accepted, or the token cannot be read or renewed.
        Unreadable: this is another kind of server.
    """
    with httpx.Client(
        auth=auth,
        verify=tls_verification(url),
        trust_env=not is_this_machine(url),
        timeout=_TIMEOUT_S,
        follow_redirects=False,
    ) as http:
        try:
            with http.stream("GET", f"{url}/readyz") as response:
                body = _read(response)
        except httpx.RequestError as error:
            check_certificate(error, url)
            why = error_text(error)
            raise Unavailable(f"{url} does not answer: {why}. Check that it runs") from error
    try:
        found = None if body is None else _decode(body)
    except DECODE_ERRORS:
        found = None
    if found is None or _STATUS.get(response.status_code) is not found.ready:
        raise not_a_gateway(url, f"{response.status_code} without a readiness")
    return found


def _read(response: httpx.Response) -> bytes | None:
    """Return the body of a response, None if it is too long to be a readiness."""
    body = b""
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _MAX_BYTES:
            return None
    return body
