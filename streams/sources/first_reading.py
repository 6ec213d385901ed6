"""The first reading of a source's version: in full, before any question about it.

Whether a question fails must not depend on the rows that it touches: a cell that cannot be read
would show whose it is. So each declared column is read once, without a filter. A version that
cannot be read answers nobody, and a question on any other one cannot fail by a cell.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import UNSET

from accountant.questions.schema import Schema
from streams.sources.database import (
    OpenedSource,
    SourceVersion,
    cause_of,
    is_of_the_environment,
    run,
)
from streams.sources.schema_rows import SchemaRows
from streams.sources.source_tables import SourceProblem


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

    def __init__(self, names: Iterable[str]) -> None:
        self._locks = {name: threading.Lock() for name in names}
        self._verdicts = dict[tuple[str, Schema], _Verdict]()

    def require(self, name: str, source: OpenedSource, rows: SchemaRows) -> None:
        """Read a source in full, unless it is known what comes of that.

        Rows that no version names are read again each time: a view's, and those in PostgreSQL.

        Args:
            rows: of the source, as a schema reads them.

        Raises: SourceProblem: it cannot be read. Exception: the environment failed, so that
            nothing is known.
        """
        if source.version is None:
            read_in_full(source, rows)
            return
        schema = rows.schema
        with self._locks[name]:
            source.limit_time(times=1)  # not while it waited for another reading
            verdict = self._verdicts.get((name, schema))
            if verdict is None or verdict.version != source.version:
                verdict = _Verdict(source.version, _problem(source, rows))
                source.check_unchanged()
                self._verdicts[name, schema] = verdict
        if verdict.problem is not None:
            raise SourceProblem(verdict.problem)

    def is_unreadable(self, schema: Schema, version: SourceVersion) -> bool:
        """Tell whether a version was read for a schema, and could not be."""
        verdict = self._verdicts.get((schema.source.name, schema))
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
    """Read each row's unit and declared columns, and what its hash is of.

    Raises: duckdb.Error: the engine cannot read a cell, or the environment failed.
    """
    values = ["u", *(f"c{i}" for i in rows.every)]
    if rows.schema.unit is not UNSET:
        values.append(rows.content)
    # One number of all cells: nothing can be left out of it.
    read = f"SELECT bit_xor(hash({', '.join(values)})) FROM ({rows.sql(rows.every)})"
    run(source.connection, read)
