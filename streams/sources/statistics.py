"""The exact statistics of a question in SQL, equal to `accountant.questions.evaluate`.

Rows are filtered, and those of crowded units, which have more than the bound, are chosen by the
keyed hash in Python; everything else stays in SQL. Sums are of integers on the columns' grids: with
up to 10^10 rows, none leaves DuckDB's 127 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final

from msgspec import UNSET

from accountant.questions.evaluate import SchemaRow, Vector, content_digest, row_content
from accountant.questions.question import (
    CheckedQuestion,
    MeanQuestion,
    QuantileQuestion,
    SumQuestion,
    TopQuestion,
    VarianceQuestion,
    group_values,
)
from accountant.questions.schema import CategoryColumn, NumberColumn
from streams.sources.cells import (
    exact_functions,
    identifier_sql,
    is_bigint,
    number_type,
    schema_value,
    value_sql,
)
from streams.sources.database import SourceTable, run
from streams.sources.filter_sql import columns_of, filter_sql
from streams.sources.quoted import integer_literal

_PART: Final = 10**14
"""A value is split at it before it is squared: the parts' products are below 10^28."""
_LARGEST_SQUARED: Final = 3 * 10**9
"""Squares of values up to it are 64-bit integers."""


def statistics(
    connection: Any, tables: Sequence[SourceTable], checked: CheckedQuestion, *, key: bytes
) -> tuple[Vector, ...]:
    """Return the exact statistics of a question, as `evaluate` does.

    Args:
        connection: to DuckDB.
        tables: whose rows together are the data.
        key: of the hash that chooses a unit's rows.
    """
    query = _Query(checked, tables)
    query.define_functions(connection)
    if not tables:
        kept = f"(SELECT 0::BIGINT AS cell, 0::{query.value_type} AS v WHERE false)"
    elif checked.schema.unit is UNSET:
        kept = f"({query.relevant('cell, v', query.needed)})"
    else:
        kept = _bounded(connection, query, key=key)
    return query.result(connection, kept)


def _bounded(connection: Any, query: _Query, *, key: bytes) -> str:
    """Return SQL of the rows that enter: at most so many of each unit."""
    most = query.checked.rows
    run(connection, f"CREATE TEMP TABLE relevant AS {query.relevant('u, cell, v', query.needed)}")
    run(
        connection,
        f"CREATE TEMP TABLE crowded AS SELECT u FROM relevant GROUP BY u HAVING count(*) > {most}",
    )
    if not run(connection, "SELECT 1 FROM crowded LIMIT 1"):
        return "relevant"
    query.define_digest(connection, key)
    every = range(len(query.checked.schema.columns))
    texts = ", ".join(f"c{i}::VARCHAR" for i in every)
    rows = query.relevant(f"u, cell, v, [{texts}] AS texts", every)
    # Equal rows have equal hashes, and it does not matter which of them stays.
    order = "row_number() OVER (PARTITION BY u ORDER BY row_digest(u::VARCHAR, texts))"
    run(
        connection,
        "CREATE TEMP TABLE chosen AS SELECT cell, v FROM "
        f"(SELECT cell, v, {order} AS place FROM ({rows}) SEMI JOIN crowded USING (u)) "
        f"WHERE place <= {most}",
    )
    return (
        "(SELECT cell, v FROM relevant ANTI JOIN crowded USING (u) "
        "UNION ALL SELECT cell, v FROM chosen)"
    )


@dataclass(frozen=True, slots=True)
class _Query:
    """The SQL of a question: `c0`, `c1`, ... are the columns of the schema, `u` is the unit."""

    checked: CheckedQuestion
    tables: Sequence[SourceTable]

    @property
    def needed(self) -> list[int]:
        """Positions of the columns that the question names."""
        names = {column.name for column in self.checked.groups}
        if self.checked.column is not None:
            names.add(self.checked.column.name)
        if self.checked.filter is not None:
            names |= columns_of(self.checked.filter)
        columns = self.checked.schema.columns
        return [i for i, column in enumerate(columns) if column.name in names]

    @property
    def value_type(self) -> str:
        column = self.checked.column
        return number_type(column) if isinstance(column, NumberColumn) else "BIGINT"

    def _value(self, name: str) -> str:
        columns = self.checked.schema.columns
        return next(f"c{i}" for i, column in enumerate(columns) if column.name == name)

    def define_functions(self, connection: Any) -> None:
        """Define the functions that read cells for which SQL is not exact.

        They have no side effects. But said to have them, DuckDB reads each cell once, and not again
        in each test.
        """
        for i, column in enumerate(self.checked.schema.columns):
            if isinstance(column, NumberColumn):
                of_text, of_double = exact_functions(column)
                result = number_type(column)
                connection.create_function(
                    f"c{i}_text",
                    of_text,
                    ["VARCHAR"],
                    result,
                    null_handling="special",
                    side_effects=True,
                )
                connection.create_function(
                    f"c{i}_double", of_double, ["DOUBLE"], result, side_effects=True
                )

    def define_digest(self, connection: Any, key: bytes) -> None:
        """Define the hash of a row, from its unit and its values as texts of integers."""
        columns = self.checked.schema.columns

        def digest(unit: str, texts: list[str | None]) -> bytes:
            values = {
                column.name: schema_value(column, None if text is None else int(text))
                for column, text in zip(columns, texts, strict=True)
            }
            return content_digest(row_content(SchemaRow(unit, values)), key=key)

        connection.create_function("row_digest", digest, ["VARCHAR", "VARCHAR[]"], "BLOB")

    def relevant(self, selected: str, columns: Iterable[int]) -> str:
        """Return SQL of the rows that the filter matches and that have each needed value."""
        rows = " UNION ALL ".join(self._read(table, columns) for table in self.tables)
        inner = f"SELECT *, {self._cell()} AS cell, {self._statistic()} AS v FROM ({rows})"
        return f"SELECT {selected} FROM ({inner} WHERE {self._is_relevant()})"

    def _read(self, table: SourceTable, columns: Iterable[int]) -> str:
        """Return SQL of the schema's values of a table's rows."""
        schema = self.checked.schema
        values = [f"{self._unit(table)} AS u"]
        for i in columns:
            column = schema.columns[i]
            values.append(f"{value_sql(column, table.columns.get(column.name), f'c{i}')} AS c{i}")
        return f"SELECT {', '.join(values)} FROM {table.sql}"

    def _unit(self, table: SourceTable) -> str:
        unit = self.checked.schema.unit
        if unit is UNSET:
            return "0::BIGINT"
        # Numbers are grouped faster than their digits, if all tables have numbers.
        if all(is_bigint(each.columns.get(unit.column)) for each in self.tables):
            return f"{table.columns[unit.column].reference}::BIGINT"
        return identifier_sql(table.columns.get(unit.column))

    def _is_relevant(self) -> str:
        tests = ["u IS NOT NULL"]
        tests += [f"{self._value(column.name)} IS NOT NULL" for column in self.checked.groups]
        if self.checked.column is not None:
            tests.append(f"{self._value(self.checked.column.name)} IS NOT NULL")
        if self.checked.filter is not None:
            columns = {
                column.name: (column, f"c{i}")
                for i, column in enumerate(self.checked.schema.columns)
            }
            tests.append(filter_sql(self.checked.filter, columns))
        return " AND ".join(tests)

    def _cell(self) -> str:
        """Return the position of a row's group, and for `top` of its category in the group."""
        position = "0::BIGINT"
        for column in self.checked.groups:
            size = len(group_values(column))
            position = f"({position} * {size} + {self._value(column.name)})"
        top = self.checked.column
        if isinstance(self.checked.question, TopQuestion) and isinstance(top, CategoryColumn):
            position = f"({position} * {len(top.categories)} + {self._value(top.name)})"
        return position

    def _statistic(self) -> str:
        column = self.checked.column
        return self._value(column.name) if isinstance(column, NumberColumn) else "0::BIGINT"

    def result(self, connection: Any, kept: str) -> tuple[Vector, ...]:
        """Return the statistics of the rows that enter."""
        column, question = self.checked.column, self.checked.question
        if not isinstance(column, NumberColumn):
            return (self._counts(connection, kept),)
        match question:
            case QuantileQuestion():
                return (self._scores(connection, kept, column, Fraction(question.fraction)),)
            case SumQuestion():
                return self._sums(connection, kept, column)[1:2]
            case MeanQuestion():
                return self._sums(connection, kept, column)[:2]
            case VarianceQuestion():
                return self._sums(connection, kept, column)
        raise TypeError(f"no statistic of numbers: {type(question).__name__}")

    def _counts(self, connection: Any, kept: str) -> Vector:
        column, size = self.checked.column, self.checked.cells
        if isinstance(self.checked.question, TopQuestion) and isinstance(column, CategoryColumn):
            size *= len(column.categories)
        counts = [Fraction(0)] * size
        rows = run(connection, f"SELECT cell, count(*) FROM {kept} GROUP BY cell")
        for cell, count in rows:
            counts[cell] = Fraction(count)
        return tuple(counts)

    def _sums(self, connection: Any, kept: str, column: NumberColumn) -> tuple[Vector, ...]:
        """Return the counts, sums and sums of squares of the groups."""
        size, grid = self.checked.cells, column.grid
        most = max(map(abs, column.bounds)) / grid
        wide = "BIGINT" if most <= _LARGEST_SQUARED else "HUGEINT"
        # A number is high * part + low, also where it is negative.
        high, low = (f"(v {sign} {integer_literal(_PART)})::{wide}" for sign in ("//", "%"))
        products = [f"{high} * {high}", f"{high} * {low}", f"{low} * {low}"]
        if not isinstance(self.checked.question, VarianceQuestion):
            products = ["0", "0", "0"]
        elif most <= _PART:
            products = ["0", "0", f"v::{wide} * v::{wide}"]
        squares = ", ".join(f"sum({product})" for product in products)
        vectors = tuple([Fraction(0)] * size for _ in range(3))
        rows = run(
            connection, f"SELECT cell, count(*), sum(v), {squares} FROM {kept} GROUP BY cell"
        )
        for cell, count, total, highs, mixed, lows in rows:
            square = highs * _PART**2 + 2 * mixed * _PART + lows
            for vector, value in zip(vectors, (count, total * grid, square * grid**2), strict=True):
                vector[cell] = Fraction(value)
        return tuple(map(tuple, vectors))

    def _scores(
        self, connection: Any, kept: str, column: NumberColumn, fraction: Fraction
    ) -> Vector:
        """Return the candidates' scores, from how many rows are at each and just above it."""
        size, candidates = self.checked.cells, column.candidates
        lower = integer_literal(int(column.bounds[0] / column.grid))
        step = integer_literal(int(column.step_size / column.grid))
        from_lower = f"(v - {lower})"
        # `place` is of the last candidate that is not above the value.
        rows = run(
            connection,
            f"SELECT cell, {from_lower} // {step} AS place, {from_lower} % {step} > 0 AS above, "
            f"count(*) FROM {kept} GROUP BY ALL",
        )
        at, after = ([[0] * candidates for _ in range(size)] for _ in range(2))
        for cell, place, above, count in rows:
            (after if above else at)[cell][place] = count
        scores = list[Fraction]()
        for equal, greater in zip(at, after, strict=True):
            until = list(accumulate(map(sum, zip(equal, greater, strict=True))))
            total = until[-1]
            for i in range(candidates):
                below = until[i - 1] if i else 0
                above = total - below - equal[i]
                scores.append(-abs((1 - fraction) * below - fraction * above))
        return tuple(scores)
