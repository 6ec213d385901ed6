"""Reads each version of a source in full once it appears, before anybody asks about it.

A question would read it otherwise. So the log has what cannot be read before it was charged.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from accountant.errors import LedgerFault
from accountant.questions import Schema
from streams.logs import get_logger
from streams.service import LedgerService
from streams.sources.source_access import SourceAccess, SourceReader

_log = get_logger(__name__)
_EVERY_S: Final = 30.0


class ReadAhead:
    """Looks at the sources of the datasets that are open.

    Args:
        access: whose source is read.
        read: reads what a schema declares, unless it has; it never raises, and may take long.
    """

    def __init__(
        self, service: LedgerService, access: SourceAccess, read: Callable[[Schema], None]
    ) -> None:
        self._service = service
        self._access = access
        self._read = read

    async def run(self) -> None:
        """Look again and again, until the task is cancelled."""
        while True:
            try:
                await self.look()
            except LedgerFault as error:
                _log.warning("sources_not_read_ahead", why=str(error))
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Look once, at one source after another. Raises: Unavailable."""
        for view in await self._service.datasets():
            if view.schema is UNSET or view.state == "closed":
                continue
            reader = SourceReader.of(view, view.schema)
            if await self._access.refusal(self._service, reader) is None:
                await _in_a_thread(self._read, view.schema)


async def _in_a_thread(read: Callable[[Schema], None], schema: Schema) -> None:
    """Call a function in a thread of its own, for which the end of this process does not wait."""
    loop = asyncio.get_running_loop()
    is_read = asyncio.Event()

    def work() -> None:
        read(schema)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(is_read.set)

    threading.Thread(target=work, name="reading ahead", daemon=True).start()
    await is_read.wait()
