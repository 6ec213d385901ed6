"""Requests to an OpenID provider: bounded in size and time, and never redirected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from accountant.strict_json import read_json
from streams.address import LOOPBACK_HOSTS
from streams.error_words import words_of

if TYPE_CHECKING:
    import httpx

_MOST_BYTES: Final = 512 * 1024
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


class ProviderUnavailable(Exception):
    """The provider does not answer, or not as an OpenID provider does."""


class ProviderFault(ProviderUnavailable):
    """The provider answers, and the answer cannot be used: the same request fails again."""


def provider_http(issuer: str, timeout_s: float) -> httpx.AsyncClient:
    """Return an HTTP client for a provider.

    Args:
        timeout_s: seconds, for each step. A caller bounds the whole with `asyncio.timeout`.
    """
    # Imported late: httpx takes long, and most clients speak to no provider.
    import httpx

    # A provider on this machine is never reached through a proxy.
    uses_proxies = urlsplit(issuer).hostname not in LOOPBACK_HOSTS
    return httpx.AsyncClient(timeout=timeout_s, trust_env=uses_proxies, follow_redirects=False)


async def read_object(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
    allow_error: bool = False,
) -> dict[str, Any]:
    """Return the JSON object with which a provider answers, of at most 512 KiB.

    Args:
        form: the fields to send, None for no body.
        auth: user and password for Basic authentication.
        allow_error: return the object of an answer with status 400 to 428 too, which OAuth uses
            for refusals.

    Raises:
        ProviderUnavailable: there is no answer, or one of another status.
        ProviderFault: the answer is not such an object. No text repeats what was sent.
    """
    import httpx

    content = bytearray()
    try:
        sent = http.build_request(method, url, headers=_HEADERS, data=form)
        basic = None if auth is None else httpx.BasicAuth(*auth)
        response = await http.send(sent, auth=basic, stream=True)
        try:
            _check(url, response, allow_error=allow_error)
            async for piece in response.aiter_raw(65_536):
                content += piece
                if len(content) > _MOST_BYTES:
                    raise ProviderFault(f"{url} has more than {_MOST_BYTES:,} bytes")
        finally:
            await response.aclose()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProviderUnavailable(f"{url} cannot be read: {words_of(error)}") from error
    try:
        found = read_json(bytes(content))
    except msgspec.DecodeError as error:
        raise _unusable(response, f"{url} does not answer with JSON: {error}") from error
    if not isinstance(found, dict):
        raise _unusable(response, f"{url} does not answer with a JSON object")
    if response.status_code != 200 and "error" not in found:
        raise _unusable(response, f"{url} answers with status {response.status_code} and no error")
    return found


def _unusable(response: httpx.Response, what: str) -> ProviderUnavailable:
    # A proxy in between may answer with a status of its own, for a while.
    return (ProviderFault if response.status_code == 200 else ProviderUnavailable)(what)


def _check(url: str, response: httpx.Response, *, allow_error: bool) -> None:
    status = response.status_code
    # 429 is no refusal: the same request may succeed later.
    if status != 200 and not (allow_error and 400 <= status <= 428):
        raise ProviderUnavailable(f"{url} answers with status {status}")
    # A few compressed bytes may expand to a gigabyte before anything counts them.
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity"}:
        raise ProviderFault(
            f"{url} is answered compressed ({coding[:50]}), which was not asked for"
        )
