"""A webhook that takes checkpoints: one POST of the note for each."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

from streams.errors import Unavailable
from streams.evidence.note import Checkpoint
from streams.evidence.sinks import Kind

WHOLE_S: Final = 10.0
_CONNECT_S: Final = 5.0


class Webhook:
    """An address that keeps each note that is posted to it, and says so by a 2xx.

    Address and authorization are secrets, so nothing shows more than scheme and host: no HTTP
    client is used, which would log addresses, and of an error only its name is told.
    Redirections are not followed.

    Args:
        url: checked by `address_of`.
        name: its scheme and host.
        authorization: value of the header of that name.
        whole: seconds that a try may take.
    """

    kind: Kind = "webhook"

    def __init__(
        self, url: str, name: str, authorization: str | None = None, *, whole: float = WHOLE_S
    ) -> None:
        self.name = name
        self._url = url
        self._whole = whole
        self._headers = {"Content-Type": "text/plain; charset=utf-8"}
        if authorization is not None:
            self._headers["Authorization"] = authorization

    def put(self, checkpoint: Checkpoint, note: bytes) -> str:
        """As `Place.put`."""
        try:
            status = asyncio.run(self._posted(note))
        except TimeoutError:
            raise Unavailable(f"{self.name} has not answered in {self._whole:g} s") from None
        except Exception as error:
            # From None: what an error of the client holds may be the address.
            raise Unavailable(f"{self.name} has not taken it: {type(error).__name__}") from None
        if not 200 <= status < 300:
            raise Unavailable(f"{self.name} does not keep it: status {status}")
        return self.name

    async def _posted(self, note: bytes) -> int:
        """Post a note once; return the status of the answer."""
        url = httpx.URL(self._url)
        request = httpx.Request(
            "POST",
            url,
            headers=self._headers,
            content=note,
            extensions={"timeout": httpx.Timeout(self._whole, connect=_CONNECT_S).as_dict()},
        )
        proxy = None if proxy_bypass(url.host) else getproxies().get(url.scheme)
        # Of the whole: a receiver that sends a byte now and then would never end else.
        async with asyncio.timeout(self._whole), httpx.AsyncHTTPTransport(proxy=proxy) as transport:
            response = await transport.handle_async_request(request)
            await response.aclose()
        return response.status_code
