"""The sources that this machine can read, by the names that schemas give them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import UNSET

from accountant.questions.evaluate import Vector
from accountant.questions.question import CheckedQuestion
from accountant.questions.schema import Schema
from streams.errors import Refused
from streams.logs import get_logger
from streams.sources.database import (
    Interruption,
    OpenedSource,
    SourceVersion,
    cause_of,
    connected,
    import_duckdb,
    version_of,
)
from streams.sources.first_reading import FirstReadings
from streams.sources.postgresql import import_psycopg
from streams.sources.schema_rows import SchemaRows
from streams.sources.source_settings import (
    TIMES_OF_A_READING,
    PostgresqlSource,
    SourceSettings,
    kind_of,
    read_source_settings,
)
from streams.sources.source_tables import SourceProblem
from streams.sources.statistics import statistics
from streams.sources.unfinished_reading import unfinished_while

_log = get_logger(__name__)


class SourceUnreadable(Refused):
    """The data cannot be read. The words are the same whatever the cause, which the log has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the source {name} cannot be read")


class DataSources(Mapping[str, SourceSettings]):
    """Sources by name; reading opens one, and nothing stays open between two questions.

    Before a schema's first question about a version of a source, all that it declares is read.
    If that fails, all questions fail: none of them tells by its failure which rows it touches.

    Args:
        unfinished: a file that counts what `read_ahead` did not end; None without one.
    """

    def __init__(
        self, sources: Mapping[str, SourceSettings], *, unfinished: Path | None = None
    ) -> None:
        import_duckdb()
        if any(isinstance(settings, PostgresqlSource) for settings in sources.values()):
            import_psycopg()
        self._sources = dict(sources)
        self._readings = FirstReadings(sources)
        self._unfinished = unfinished
        self._read_ahead = dict[Schema, SourceVersion | str]()
        self._ahead: Interruption | None = None

    def __getitem__(self, name: str) -> SourceSettings:
        return self._sources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def statistics(
        self,
        checked: CheckedQuestion,
        *,
        key: bytes,
        interruptible: Callable[[Interruption], None] = lambda _: None,
    ) -> tuple[Vector, ...]:
        """Return the exact statistics of a question about the source that its schema names.

        They equal those of `accountant.questions.evaluate` on the source's rows.

        Args:
            key: of the hash that chooses a unit's rows (`load_contribution_key`).
            interruptible: gets what ends the reading, before it begins.
        Raises: SourceUnreadable: whatever the cause.
        """
        name = checked.schema.source.name
        try:
            with self._read(checked.schema, interruptible=interruptible) as (source, rows):
                # More than any reading takes: no question on what was read in time fails by time.
                source.limit_time(times=TIMES_OF_A_READING)
                return statistics(source.connection, rows, checked, key=key)
        except Exception as error:
            _log.error("source_unreadable", source=name, cause=cause_of(error))
        # Outside the handler: no traceback leads to the cause, whose words may have cells.
        raise SourceUnreadable(name)

    def read_ahead(self, schema: Schema) -> None:
        """Read the version of a source that is there now, once, before anybody asks about it.

        The log has a failure; what the environment did is no verdict on later questions.
        """
        name = schema.source.name
        try:
            version: SourceVersion | str = version_of(self._settings(schema))
        except SourceProblem as error:
            version = str(error)
        if self._read_ahead.get(schema) == version:
            return
        self._read_ahead[schema] = version
        try:
            if isinstance(version, str):
                raise SourceProblem(version)
            reading = self._read(schema, interruptible=self._set_ahead)
            with unfinished_while(self._unfinished, name, version), reading:
                pass
        except Exception as error:
            _log.error("source_not_read_ahead", source=name, cause=cause_of(error))
        finally:
            self._ahead = None

    def is_unreadable(self, schema: Schema) -> bool:
        """Tell whether the version of a source that is there now is known to answer nobody."""
        try:
            version = version_of(self._settings(schema))
        except SourceProblem:
            return False
        return self._readings.is_unreadable(schema, version)

    def interrupt(self) -> None:
        """End what `read_ahead` waits for now, from another thread."""
        if (ahead := self._ahead) is not None:
            with contextlib.suppress(import_duckdb().Error):  # it is closed meanwhile
                ahead.interrupt()

    def _set_ahead(self, interruption: Interruption) -> None:
        self._ahead = interruption

    @contextlib.contextmanager
    def _read(
        self, schema: Schema, *, interruptible: Callable[[Interruption], None] = lambda _: None
    ) -> Iterator[tuple[OpenedSource, SchemaRows]]:
        """Open a schema's source, once it is known that it can be read in full."""
        opened = connected(self._settings(schema), _names(schema), interruptible=interruptible)
        with opened as source:
            rows = SchemaRows(schema, source.tables)
            rows.define_functions(source.connection)
            self._readings.require(schema.source.name, source, rows)
            yield source, rows

    def _settings(self, schema: Schema) -> SourceSettings:
        named = schema.source
        settings = self._sources.get(named.name)
        if settings is None:
            raise SourceProblem("the settings name no such source")
        if kind_of(settings) != named.kind:
            raise SourceProblem(f"it is of kind {kind_of(settings)}, not {named.kind}")
        return settings


def _names(schema: Schema) -> set[str]:
    """Return the names of the columns that a schema declares, and of its unit."""
    names = {column.name for column in schema.columns}
    return names if schema.unit is UNSET else names | {schema.unit.column}


def read_data_sources(path: Path) -> DataSources:
    """Return the sources of the file of the setting `data_sources`.

    Raises: Refused: the file cannot be read, or the extra `answers` is not installed.
    """
    unfinished = path.with_name(f"{path.name}.reading")
    return DataSources(read_source_settings(path), unfinished=unfinished)
