"""A webhook as a sink: one POST of the signed text for each checkpoint."""

from __future__ import annotations

import asyncio

from streams.error_words import meaning_of
from streams.errors import Unavailable
from streams.evidence.signed_checkpoint import SignedHead
from streams.evidence.sinks import Kind
from streams.webhook_post import WHOLE_S, WebhookPoster


class CheckpointWebhook:
    """A sink that stores each checkpoint posted to it, and confirms it by status 2xx.

    Messages show only scheme and host of the URL: the rest may be secret.

    Args:
        url: checked by `address_of`.
        name: its scheme and host.
        authorization, whole: as for `WebhookPoster`.
    """

    kind: Kind = "webhook"

    def __init__(
        self, url: str, name: str, authorization: str | None = None, *, whole: float = WHOLE_S
    ) -> None:
        self.name = name
        self._whole = whole
        self._poster = WebhookPoster(url, "text/plain; charset=utf-8", authorization, whole=whole)

    def put(self, checkpoint: SignedHead, signed_text: bytes) -> str:
        """As `Sink.put`."""
        try:
            status = asyncio.run(self._post(signed_text))
        except TimeoutError:
            raise Unavailable(f"{self.name} has not answered in {self._whole:g} s") from None
        except Exception as error:
            # From None: the client's error may contain the secret URL.
            raise Unavailable(f"{self.name} cannot be reached: {meaning_of(error)}") from None
        if not 200 <= status < 300:
            raise Unavailable(f"{self.name} rejected the checkpoint: status {status}")
        return self.name

    async def _post(self, signed_text: bytes) -> int:
        try:
            return await self._poster.post(signed_text)
        finally:
            await self._poster.close()
