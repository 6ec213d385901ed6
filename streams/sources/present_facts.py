"""The names and types that sources have now, read once for each version of their files."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streams.clock import steady
from streams.sources.database import SourceVersion, version_of
from streams.sources.source_facts import SourceFacts, read_facts
from streams.sources.source_settings import SourceSettings
from streams.sources.source_tables import EnvironmentProblem, SourceProblem

_GRACE_S: Final = 30.0
"""How long a source may be away, such as while it is replaced, until nobody is charged for it."""
_WAIT_S: Final = 2.0
"""The longest wait for another look at the same source: a disk or a database may hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at a source has found.

    Attributes:
        facts: None where it has none that can be read.
        problem: why it has none, "" if it has some; in words that have no cell.
        is_away: the problem is the environment's, and the next look may find facts.
        is_passing: it is away, and has not been for long.
    """

    facts: SourceFacts | None = None
    problem: str = ""
    is_away: bool = False
    is_passing: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    """A look at a version. `away_since` is None where the environment had no problem."""

    settings: SourceSettings
    version: SourceVersion | None
    facts: SourceFacts | None
    problem: str
    away_since: float | None = None

    @property
    def look(self) -> Look:
        since = self.away_since
        passing = since is not None and steady() - since < _GRACE_S
        return Look(
            facts=self.facts,
            problem=self.problem,
            is_away=since is not None,
            is_passing=passing,
        )


class PresentFacts:
    """Looks at sources. Use it from any thread."""

    def __init__(self, sources: Mapping[str, SourceSettings]) -> None:
        self._sources = sources
        self._seen = dict[str, _Seen]()
        self._locks = dict[str, threading.Lock]()

    def look(self, name: str, *, again: bool = False) -> Look:
        """Look at a source of the settings.

        Its files are read when they have changed. A source without files is a database, and its
        first look counts until there is another one with `again`.
        """
        settings = self._sources.get(name)
        if settings is None:
            return Look(problem="the file of sources does not have it any more")
        lock = self._locks.setdefault(name, threading.Lock())
        if not lock.acquire(timeout=_WAIT_S):
            seen = self._seen.get(name)
            busy = Look(problem="another look at it does not end", is_away=True)
            return busy if seen is None else seen.look
        try:
            self._seen[name] = self._updated(name, settings, again=again)
            return self._seen[name].look
        finally:
            lock.release()

    def _updated(self, name: str, settings: SourceSettings, *, again: bool) -> _Seen:
        before = self._seen.get(name)
        version: SourceVersion | None = None
        try:
            version = version_of(settings)
            if before is not None and before.settings == settings:
                # No file tells of a database, so only `again` asks it again.
                is_same = before.version == version if version else not again
                if is_same:
                    return before
            return _Seen(settings, version, read_facts(settings), "")
        except EnvironmentProblem as error:
            away = before is not None and before.away_since is not None
            since = before.away_since if before is not None and away else steady()
            # No version: the next look tries again.
            return _Seen(settings, None, None, str(error), since)
        except SourceProblem as error:
            return _Seen(settings, version, None, str(error))
