"""POSTs to a webhook whose URL is secret: no log shows more than a status."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx

WHOLE_S: Final = 10.0
_CONNECT_S: Final = 5.0


class WebhookPoster:
    """Sends POSTs to one URL. Use it only in the event loop that first posts.

    URL and authorization are secrets: some receivers authenticate senders by the path alone. So no
    HTTP client that logs URLs is used, and messages show only a status or the name of an error.
    Redirects are not followed: they could send the secret elsewhere.

    Args:
        url: http(s)://host..., checked by the settings.
        content_type, authorization: the headers of these names.
        whole: the timeout of a whole POST, in seconds.
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
        """Post once; return the response's status.

        Raises: TimeoutError: the POST takes too long. Exception: its text may contain secrets.
        """
        # Imported late: httpx takes long, and few ledgers in a file have a webhook.
        import httpx

        url = httpx.URL(self._url)
        request = httpx.Request(
            "POST",
            url,
            headers={**self._headers, **(headers or {})},
            content=content,
            extensions={"timeout": httpx.Timeout(self._whole, connect=_CONNECT_S).as_dict()},
        )
        if self._transport is None:  # loading certificates takes 30 ms
            self._transport = await asyncio.to_thread(_transport, url)
        # Time out the whole exchange: a trickling receiver never hits a read timeout.
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
    from urllib.request import getproxies, proxy_bypass

    import httpx

    proxy = None if proxy_bypass(url.host) else getproxies().get(url.scheme)
    return httpx.AsyncHTTPTransport(proxy=proxy)
