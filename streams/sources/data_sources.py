"""The sources that this machine can read, by the names that schemas give them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import UNSET

from accountant.questions.parts import Vector
from accountant.questions.question import CheckedQuestion
from accountant.questions.schema import Schema
from streams.errors import Refused
from streams.sources.confirmed_facts import CONFIRMED, confirmed_path
from streams.sources.database import (
    Interruption,
    OpenedSource,
    SourceVersion,
    cause_of,
    connected,
    import_duckdb,
    may_pass,
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
from streams.sources.source_tables import EnvironmentProblem, SourceChanged, SourceProblem
from streams.sources.statistics import statistics
from streams.sources.unfinished_reading import unfinished_while
from streams.sources.zone_files import zone_rules_version
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)


class SourceUnreadable(Refused):
    """The data cannot be read. The words are the same whatever the cause, which the log has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the source {name} cannot be read")


class SourceAway(SourceUnreadable):
    """The data cannot be opened now, or were replaced while they were read; try again soon.

    No cell is the cause. What was read until then is forgotten.
    """


class OpenSource:
    """A source that is open, and that can be read in full. Ask it once, or close it."""

    def __init__(
        self, name: str, source: OpenedSource, rows: SchemaRows, opened: contextlib.ExitStack
    ) -> None:
        self._name = name
        self._source = source
        self._rows = rows
        self._opened = opened
        self.zone_rules = zone_rules_version(rows.schema)

    def statistics(self, checked: CheckedQuestion, *, key: bytes) -> tuple[Vector, ...]:
        """As `DataSources.statistics`, of a question on the schema that it was opened for.

        Raises: SourceAway: its files are others by now. SourceUnreadable: any other cause.
        """
        raised: type[SourceUnreadable]
        try:
            with self._opened.pop_all():  # `close` leaves it to this thread
                # More than any reading takes: no question on what was read in time fails by time.
                self._source.limit_time(times=TIMES_OF_A_READING)
                return statistics(
                    self._source.connection,
                    self._rows,
                    checked,
                    key=key,
                    at_once=self._source.rows_at_once,
                )
        except SourceChanged as error:
            _log.warning("source_changed", source=self._name, cause=cause_of(error))
            raised = SourceAway
        except Exception as error:
            # Only the identity of files has a question run again: memory and time may tell of rows.
            _log.error("source_unreadable", source=self._name, cause=cause_of(error))
            raised = SourceUnreadable
        # Outside the handlers: no traceback leads to the cause, whose words may have cells.
        raise raised(self._name)

    def close(self) -> None:
        """Close it, if it is open. Never raises."""
        with contextlib.suppress(Exception):
            self._opened.close()


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
        self._readings = FirstReadings()
        self._unfinished = unfinished
        self._read_ahead = dict[Schema, tuple[SourceSettings | None, SourceVersion | str]]()
        self._away = dict[Schema, str]()  # the causes that the log has
        self._ahead: Interruption | None = None

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
        return self.open(checked.schema).statistics(checked, key=key)

    def open(
        self, schema: Schema, *, interruptible: Callable[[Interruption], None] = lambda _: None
    ) -> OpenSource:
        """Open the source that a schema names, once it is known that it can be read in full.

        It may take as long as the reading. The caller asks it, or closes it.

        Args:
            interruptible: gets what ends this reading, and later that of a question.
        Raises: SourceAway: what the environment did. SourceUnreadable: any other cause, the same
            for each question on this version.
        """
        name = schema.source.name
        opened = contextlib.ExitStack()
        try:
            reading = self._read(schema, interruptible=interruptible)
            found = OpenSource(name, *opened.enter_context(reading), opened)
        except Exception as error:
            is_away, cause = may_pass(error), cause_of(error)
        else:
            if self._away.pop(schema, None) is not None:
                _log.info("source_back", source=name)
            return found
        if not is_away:
            self._away.pop(schema, None)
            _log.error("source_unreadable", source=name, cause=cause)
        elif self._away.get(schema) != cause:  # once: it is tried again and again
            self._away[schema] = cause
            _log.warning("source_away", source=name, cause=cause)
        # Outside the handler: no traceback leads to the cause, whose words may have cells.
        raise (SourceAway if is_away else SourceUnreadable)(name)

    def use(self, sources: Mapping[str, SourceSettings]) -> None:
        """Take the sources of a file that has changed; what is open stays as it is."""
        self._sources = dict(sources)

    def read_ahead(self, schema: Schema) -> None:
        """Read the version of a source that is there now, once, before anybody asks about it.

        The log has a failure; what the environment did is no verdict on later questions.
        """
        name = schema.source.name
        settings, version = self._sources.get(name), self._version(schema)
        if self._read_ahead.get(schema) == (settings, version):
            return
        self._read_ahead[schema] = settings, version
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
        version = self._version(schema)
        if isinstance(version, str):
            return False
        return self._readings.is_unreadable(self._settings(schema), schema, version)

    def _version(self, schema: Schema) -> SourceVersion | str:
        """Return the version of a schema's source, or why there is none."""
        try:
            return version_of(self._settings(schema))
        except SourceProblem as error:
            return str(error)

    def interrupt(self) -> None:
        """End what `read_ahead` waits for now, from another thread."""
        if (ahead := self._ahead) is not None:
            ahead.interrupt()

    def _set_ahead(self, interruption: Interruption) -> None:
        self._ahead = interruption

    @contextlib.contextmanager
    def _read(
        self, schema: Schema, *, interruptible: Callable[[Interruption], None] = lambda _: None
    ) -> Iterator[tuple[OpenedSource, SchemaRows]]:
        """Open a schema's source, once it is known that it can be read in full."""
        settings = self._settings(schema)
        with connected(settings, _names(schema), interruptible=interruptible) as source:
            rows = SchemaRows(schema, source.tables)
            rows.define_functions(source.connection)
            self._readings.require(settings, source, rows)
            yield source, rows

    def _settings(self, schema: Schema) -> SourceSettings:
        named = schema.source
        settings = self._sources.get(named.name)
        if settings is None:
            raise EnvironmentProblem("the settings name no such source")
        if kind_of(settings) != named.kind:
            raise EnvironmentProblem(f"it is of kind {kind_of(settings)}, not {named.kind}")
        return settings


def _names(schema: Schema) -> set[str]:
    """Return the names of the columns that a schema declares, and of its unit."""
    names = {column.name for column in schema.columns}
    return names if schema.unit is UNSET else names | {schema.unit.column}


def read_data_sources(path: Path) -> DataSources:
    """Return the sources of the file of the setting `data_sources`.

    Raises: Refused: the file cannot be read, or the extra `answers` is not installed.
    """
    return make_data_sources(confirmed_path(path), read_source_settings(path))


def make_data_sources(confirmed: Path, sources: Mapping[str, SourceSettings]) -> DataSources:
    """Return the sources that a file has.

    Args:
        confirmed: the file of what was confirmed. Readings are counted beside it: the data, and the
            file of sources with them, may be on a volume that is read only.
    Raises: NotInstalled.
    """
    name = confirmed.name.removesuffix(CONFIRMED)
    return DataSources(sources, unfinished=confirmed.with_name(f"{name}.reading"))
