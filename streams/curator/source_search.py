"""Looks for each source of the file, at the start and again and again: who runs it must know."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from streams.curator.read_ahead import in_own_thread
from streams.error_words import meaning_of
from streams.sources.source_facts import read_facts
from streams.sources.source_file import SourceFile
from streams.sources.source_settings import SourceSettings
from streams.sources.source_tables import SourceProblem
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_EVERY_S: Final = 30.0


class SourceSearch:
    """Says in the log and in the file's notes which sources are not there."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._changed = asyncio.Event()
        file.on_change(lambda _: self._changed.set())

    async def run(self) -> None:
        """Look at each source every 30 s, and at once after the file has changed."""
        while True:
            self._changed.clear()
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._changed.wait()

    async def look(self) -> None:
        """Look once, at one source after another."""
        sources, missing = self._file.sources, self._file.missing
        for name in missing.keys() - sources.keys():
            del missing[name]
        for name, settings in sources.items():
            why = await _why_missing(settings)
            if why is None:
                if missing.pop(name, None) is not None:
                    _log.info("source_found", source=name)
            elif missing.get(name) != why:
                missing[name] = why
                _log.error(
                    "source_not_found",
                    source=name,
                    why=why,
                    file=getattr(settings, "path", None),
                    table=getattr(settings, "table", None),
                    connection_file=getattr(settings, "connection_file", None),
                )


async def _why_missing(settings: SourceSettings) -> str | None:
    """Return why a source cannot be opened, in words that have no cell; None if it can be."""
    found = list[str]()

    def look() -> None:
        try:
            read_facts(settings)
        except SourceProblem as error:
            found.append(str(error))
        except Exception as error:
            found.append(meaning_of(error))

    await in_own_thread(look, lambda: None, name="looking for a source")
    return found[0] if found else None
