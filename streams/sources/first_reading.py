"""The first reading of a source's version: in full, before any question about it.

Whether a question fails must not depend on the rows that it touches: a cell that cannot be read
would show whose it is. So each declared column is read once, without a filter. A version that
cannot be read answers nobody, and a question on any other one cannot fail by a cell.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from accountant.questions.schema import Schema
from accountant.questions.statistics import MAX_STATISTICS
from streams.sources.database import (
    OpenedSource,
    SourceVersion,
    cause_of,
    is_of_the_environment,
    run,
)
from streams.sources.row_digest import digest_sql
from streams.sources.schema_rows import UNIT_TEXT, SchemaRows
from streams.sources.source_settings import SourceSettings
from streams.sources.source_tables import SourceProblem

_ANY_KEY: Final = bytes(32)
"""Of the digests of a reading, which decide nothing."""
_ROW_BYTES: Final = 512
"""Of a row in all tables of a question at once: its unit four times, and its digest."""
_CELL_BYTES: Final = 16
"""Of a cell."""
_STATISTIC_BYTES: Final = 48
"""Of a cell that statistics read: among the rows that are hashed, counted and chosen, too."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What came of a reading.

    Attributes:
        problem: words for the log, None where it could be read.
    """

    version: SourceVersion
    problem: str | None


class FirstReadings:
    """Reads each version of a source once for each schema, and remembers what came of it."""

    def __init__(self) -> None:
        self._locks = dict[SourceSettings, threading.Lock]()
        self._verdicts = dict[tuple[SourceSettings, Schema], _Verdict]()

    def require(self, settings: SourceSettings, source: OpenedSource, rows: SchemaRows) -> None:
        """Read a source in full, unless it is known what comes of that.

        Rows that no version names are read again each time: a view's, and those in PostgreSQL.

        Args:
            settings: of the source: other ones read another table, or read it in another way.
            rows: of the source, as a schema reads them.

        Raises: SourceProblem: it cannot be read. Exception: the environment failed, so that
            nothing is known.
        """
        if source.version is None:
            read_in_full(source, rows)
            return
        schema = rows.schema
        with self._locks.setdefault(settings, threading.Lock()):
            source.limit_time(times=1)  # not while it waited for another reading
            verdict = self._verdicts.get((settings, schema))
            if verdict is None or verdict.version != source.version:
                verdict = _Verdict(source.version, _problem(source, rows))
                source.check_unchanged()
                self._verdicts[settings, schema] = verdict
        if verdict.problem is not None:
            raise SourceProblem(verdict.problem)

    def is_unreadable(
        self, settings: SourceSettings, schema: Schema, version: SourceVersion
    ) -> bool:
        """Tell whether a version was read for a schema, and could not be."""
        verdict = self._verdicts.get((settings, schema))
        return verdict is not None and verdict.version == version and verdict.problem is not None


def _problem(source: OpenedSource, rows: SchemaRows) -> str | None:
    """Return the problem that cells of a source are, None if there is none."""
    try:
        read_in_full(source, rows)
    except Exception as error:
        if is_of_the_environment(error):
            raise
        return cause_of(error)
    return None


def read_in_full(source: OpenedSource, rows: SchemaRows) -> None:
    """Read each row's unit and declared columns, and hash each row as a question does.

    The hash is what a question does longest, for rows of crowded units alone: without it here, one
    person's many rows could take a question past its time that a reading in time has bounded.
    Which rows a question writes to the disk depends on its filter, so it may need the disk for all.

    Raises: duckdb.Error: the engine cannot read a cell, or the environment failed. SourceProblem:
        a question about all rows may not fit on the disk.
    """
    values = ["u", *(f"c{i}" for i in rows.every)]
    has_unit = rows.schema.unit is not UNSET
    if has_unit:
        values.append(digest_sql(rows.content, key=_ANY_KEY))
    # One number of all cells: nothing can be left out of it.
    read = f"bit_xor(hash({', '.join(values)})), count(*), sum(strlen({UNIT_TEXT}))"
    table = f"({rows.sql(rows.every)})"
    ((_, number, lengths),) = run(source.connection, f"SELECT {read} FROM {table}")
    if has_unit:
        columns = len(rows.every)
        cells = _CELL_BYTES * columns + _STATISTIC_BYTES * min(columns, MAX_STATISTICS)
        source.check_spill(number * (_ROW_BYTES + cells) + int(lengths or 0))
