"""Reads each version of a source in full once it appears, before anybody asks about it.

A question would read it otherwise. So the log has what cannot be read before it was charged.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from msgspec import UNSET

from accountant.errors import LedgerFault
from accountant.questions import Schema
from streams.service.ledger_service import LedgerService
from streams.sources.source_access import SourceAccess, SourceReader
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_EVERY_S: Final = 30.0
_INTERRUPTIONS: Final = 100
_PAUSE_S: Final = 0.05


class ReadsAhead(Protocol):
    """What reads sources: `streams.sources.DataSources`."""

    def read_ahead(self, schema: Schema) -> None:
        """Read what a schema declares, unless that is done; never raise. It may take long."""
        ...

    def interrupt(self) -> None:
        """End what `read_ahead` does now, if it is at a place where that is possible."""
        ...


class ReadAhead:
    """Looks at the sources of the datasets that are open.

    Args:
        access: whose source is read.
    """

    def __init__(self, service: LedgerService, access: SourceAccess, sources: ReadsAhead) -> None:
        self._service = service
        self._access = access
        self._sources = sources

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
                await self._read(view.schema)

    async def _read(self, schema: Schema) -> None:
        await in_own_thread(partial(self._sources.read_ahead, schema), self._sources.interrupt)


async def in_own_thread(
    work: Callable[[], None], interrupt: Callable[[], None], *, name: str = "reading ahead"
) -> None:
    """Run work that never raises in a thread of its own; leave it ended.

    No process ends well within a call of DuckDB.

    Args:
        interrupt: ends what the work does now, if that is possible.
    """
    loop = asyncio.get_running_loop()
    is_done = asyncio.Event()

    def run() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(is_done.set)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        await is_done.wait()
    finally:
        # Between two statements an interruption is lost.
        for _ in range(_INTERRUPTIONS):
            if not thread.is_alive():
                break
            interrupt()
            thread.join(_PAUSE_S)
