"""POSTs to an address that an operator gave, of which no log shows more than a status."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

WHOLE_S: Final = 10.0
_CONNECT_S: Final = 5.0


class WebhookPoster:
    """An address that takes POSTs. Belongs to the event loop that first posts.

    Address and authorization are secrets: some receivers know their senders by the path alone.
    So neither goes through an HTTP client that logs addresses, and of a failure its users show
    a status or the name of an error. Redirections are not followed.

    Args:
        url: http(s)://host..., checked by the settings.
        content_type: value of the header of that name.
        authorization: value of the header of that name.
        whole: seconds that a POST may take.
    """

    def __init__(
        self, url: str, content_type: str, authorization: str | None, *, whole: float
    ) -> None:
        self._url = url
        self._whole = whole
        self._headers = {"Content-Type": content_type}
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def post(self, content: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Post once; return the status of the answer.

        Raises: TimeoutError: the whole takes too long. Exception: what it holds may be secret.
        """
        url = httpx.URL(self._url)
        request = httpx.Request(
            "POST",
            url,
            headers={**self._headers, **(headers or {})},
            content=content,
            extensions={"timeout": httpx.Timeout(self._whole, connect=_CONNECT_S).as_dict()},
        )
        if self._transport is None:  # reading certificates takes some 30 ms
            self._transport = await asyncio.to_thread(_transport, url)
        # Of the whole: a receiver that sends a byte now and then would never end else.
        async with asyncio.timeout(self._whole):
            response = await self._transport.handle_async_request(request)
            await response.aclose()
        return response.status_code

    async def close(self) -> None:
        """Close the connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()


def _transport(url: httpx.URL) -> httpx.AsyncHTTPTransport:
    proxy = None if proxy_bypass(url.host) else getproxies().get(url.scheme)
    return httpx.AsyncHTTPTransport(proxy=proxy)
