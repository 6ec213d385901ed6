"""A webhook that takes checkpoints: one POST of the note for each."""

from __future__ import annotations

import asyncio

from streams.errors import Unavailable
from streams.evidence.note import Checkpoint
from streams.evidence.sinks import Kind
from streams.webhook_post import WHOLE_S, WebhookPoster


class CheckpointWebhook:
    """An address that keeps each note that is posted to it, and says so by a 2xx.

    Nothing shows more of the address than scheme and host.

    Args:
        url: checked by `address_of`.
        name: its scheme and host.
        authorization, whole: as of `WebhookPoster`.
    """

    kind: Kind = "webhook"

    def __init__(
        self, url: str, name: str, authorization: str | None = None, *, whole: float = WHOLE_S
    ) -> None:
        self.name = name
        self._whole = whole
        self._poster = WebhookPoster(url, "text/plain; charset=utf-8", authorization, whole=whole)

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
        try:
            return await self._poster.post(note)
        finally:
            await self._poster.close()
