"""The file of sources: read at the start, and again whenever it is another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from streams.error_words import words_of
from streams.errors import Refused
from streams.settings import PREFIX, Settings
from streams.sources.source_access import SourceAccess, source_access
from streams.sources.source_settings import (
    TIMES_OF_A_READING,
    SourceSettings,
    read_source_settings,
)
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_EVERY_S: Final = 2.0
_Identity = tuple[int, ...] | None
Use = Callable[[Mapping[str, SourceSettings]], None]


class SourceFile:
    """The sources that the setting `data_sources` names, and the rule of access that follows.

    Whatever goes by the sources changes in one step of the event loop, in which nothing else runs.

    Attributes:
        access: the rule; one object for all who ask it.
        trouble: why the file that is there now is not used, None while it is.
        missing: by source, what cannot be found of it; whoever reads data fills it.

    Args:
        reads: this process reads the data, and so has the turns of questions.
    Raises: Refused: the file cannot be read at the start, or does not have its form.
    """

    def __init__(self, path: Path, settings: Settings, *, reads: bool) -> None:
        self._path = path
        self._turn = settings.curator_turn_seconds if reads else None
        self._identity = _identity(path)
        self._sources = self._read()
        self._looking = asyncio.Lock()
        self._users = list[Use]()
        self.access: Final[SourceAccess] = source_access(self._sources, settings)
        self.trouble: str | None = None
        self.missing = dict[str, str]()

    @property
    def sources(self) -> Mapping[str, SourceSettings]:
        """The sources by name."""
        return self._sources

    def on_change(self, use: Use) -> None:
        """Call this in the event loop with each new content."""
        self._users.append(use)

    def notes(self) -> list[str]:
        """Return what an operator should know, for `/readyz`; nothing of the data."""
        found = [] if self.trouble is None else [self.trouble]
        return found + [
            f"the source {name} is not there: {why}. Questions about it wait, then fail; see its "
            "line source_not_found in the log"
            for name, why in sorted(self.missing.items())
        ]

    async def follow(self) -> None:
        """Look again and again, until the task is cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> bool:
        """Read the file again if it is another one; tell whether its sources are used from now on.

        One that cannot be used changes nothing but `trouble`.
        """
        async with self._looking:
            identity = await asyncio.to_thread(_identity, self._path)
            if identity == self._identity:
                return False
            try:
                sources = await asyncio.to_thread(self._read)
                if await asyncio.to_thread(_identity, self._path) != identity:
                    return False  # it was written meanwhile: the next look reads it
            except Exception as error:
                self._identity = identity
                self._note(words_of(error))
                return False
            self._identity, self._sources, self.trouble = identity, sources, None
            for use in (*self._users, self.access.use):
                use(sources)
            _log.info("sources_read_again", file=str(self._path), sources=", ".join(sources))
            return True

    def _note(self, why: str) -> None:
        trouble = f"the file of sources is not used, and the one before it still is: {why}"
        if trouble != self.trouble:
            self.trouble = trouble
            _log.error("sources_not_read_again", file=str(self._path), why=why)

    def _read(self) -> dict[str, SourceSettings]:
        """Return the sources in the file. Raises: Refused."""
        sources = read_source_settings(self._path)
        if self._turn is not None:
            _check_turns(sources, self._turn)
        return sources


def open_source_file(settings: Settings) -> SourceFile | None:
    """Return the file of sources that the settings name, None where this process has none.

    A gateway may lack the file: only the process that reads data needs it.

    Raises: Refused: the file cannot be read, or does not have its form.
    """
    path, is_kafka = settings.data_sources, settings.ledger.kind == "kafka"
    if path is None:
        return None
    if is_kafka and not path.exists():
        then = "a question on another dataset's source is charged, and the curator does not run it"
        _log.warning("sources_not_known", file=str(path), then=then)
        return None
    return SourceFile(path, settings, reads=not is_kafka)


def _identity(path: Path) -> _Identity:
    try:
        file = path.stat()
    except OSError:
        return None
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns


def _check_turns(sources: Mapping[str, SourceSettings], turn: int) -> None:
    """Check that a question's turn is not over before its source's time is.

    Raises: Refused.
    """
    # It may wait for another reading, and read the version first.
    readings = 2 + TIMES_OF_A_READING
    for name, source in sources.items():
        longest = readings * source.seconds
        if longest > turn:
            raise Refused(
                f"a question on the source {name} may take {longest} s, that is "
                f"{readings} times its `seconds`, and no question may take longer than "
                f"{turn} s. Set {PREFIX}CURATOR_TURN_SECONDS to at least {longest}, or lower "
                f"`seconds` of {name}"
            )
