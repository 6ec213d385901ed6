"""The sources that this machine can read, by the names that schemas give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from accountant.questions.evaluate import Vector
from accountant.questions.question import CheckedQuestion
from streams.errors import Refused
from streams.logs import get_logger
from streams.sources.database import SourceProblem, connected, import_duckdb
from streams.sources.source_settings import SourceSettings, kind_of, read_source_settings
from streams.sources.statistics import statistics

_log = get_logger(__name__)


class SourceUnreadable(Refused):
    """The data cannot be read. The words are the same whatever the cause, which the log has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the source {name} cannot be read")


class DataSources(Mapping[str, SourceSettings]):
    """Sources by name; reading opens one, and nothing stays open between two questions."""

    def __init__(self, sources: Mapping[str, SourceSettings]) -> None:
        import_duckdb()
        self._sources = dict(sources)

    def __getitem__(self, name: str) -> SourceSettings:
        return self._sources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def statistics(self, checked: CheckedQuestion, *, key: bytes) -> tuple[Vector, ...]:
        """Return the exact statistics of a question about the source that its schema names.

        They equal those of `accountant.questions.evaluate` on the source's rows.

        Args:
            key: of the hash that chooses a unit's rows (`load_contribution_key`).
        Raises: SourceUnreadable: whatever the cause.
        """
        named = checked.schema.source
        try:
            settings = self._sources.get(named.name)
            if settings is None:
                raise SourceProblem("the settings name no such source")
            if kind_of(settings) != named.kind:
                raise SourceProblem(f"it is of kind {kind_of(settings)}, not {named.kind}")
            with connected(settings) as (connection, tables):
                return statistics(connection, tables, checked, key=key)
        except Exception as error:
            _log.error("source_unreadable", source=named.name, cause=_cause(error))
        # Outside the handler: no traceback leads to the cause, whose words may have cells.
        raise SourceUnreadable(named.name)


def _cause(error: Exception) -> str:
    """Return words for the log; those of DuckDB may have cells, so their type is named."""
    return str(error) if isinstance(error, SourceProblem) else type(error).__name__


def read_data_sources(path: Path) -> DataSources:
    """Return the sources of the file of the setting `data_sources`.

    Raises: Refused: the file cannot be read, or the extra `answers` is not installed.
    """
    return DataSources(read_source_settings(path))
