"""The exact statistics of a question in SQL, equal to `accountant.questions.evaluate`.

Rows are filtered, and those of crowded units, which have more than the bound, are chosen by the
keyed hash. Sums are of integers on the columns' grids: with
up to 10^10 rows, none leaves DuckDB's 127 bits. Each part of a question has its SQL here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from accountant.questions.parts import (
    ExactPart,
    RowSum,
    Vector,
    middle_of,
    middle_square_of,
)
from accountant.questions.plan import plan_of
from accountant.questions.question import CheckedQuestion
from accountant.questions.schema import NumberColumn
from accountant.questions.scope import Scope
from accountant.questions.sensitivity import VectorName
from accountant.questions.statistics import CategoryCounts, QuantileScores
from streams.sources.cells import clamp_sql, number_type
from streams.sources.database import run
from streams.sources.filter_sql import filter_sql
from streams.sources.group_sql import group_sql
from streams.sources.quoted import integer_literal
from streams.sources.row_digest import digest_sql
from streams.sources.schema_rows import SchemaRows

_PART: Final = 10**14
"""A value is split at it before it is squared: the parts' products are below 10^28."""
_LARGEST_SQUARED: Final = 3 * 10**9
"""Squares of values up to it are 64-bit integers."""
_MOST_IN_A_HEAP: Final = 100_000
"""Of one unit; more are sorted, which may use the disk."""


def statistics(
    connection: Any, rows: SchemaRows, checked: CheckedQuestion, *, key: bytes, at_once: int
) -> tuple[Vector, ...]:
    """Return the exact statistics of a question, as `evaluate` does.

    Args:
        connection: to DuckDB, which has the rows' functions.
        key: of the hash that chooses a unit's rows.
        at_once: rows of crowded units that are chosen together, so that they fit into memory.
    """
    plan, found = plan_of(checked), dict[int, Vector]()
    for owner, alone in enumerate(checked.alone):
        own = [i for i, each in enumerate(plan.parts) if each.owner == owner]
        if not own:  # all that it is computed from is another one's, too
            continue
        query = _Query(alone, rows)
        if checked.schema.unit is UNSET:
            kept = f"({query.relevant('cell, v', query.needed)})"
        else:
            kept = _bounded(connection, query, key=key, at_once=at_once)
        parts = [plan.parts[i].part for i in own]
        found |= zip(own, query.result(connection, kept, parts), strict=True)
    return tuple([found[i] for i in range(len(plan.parts))])


def _bounded(connection: Any, query: _Query, *, key: bytes, at_once: int) -> str:
    """Return SQL of the rows that enter: at most so many of each unit."""
    checked = query.checked
    most, per_group = checked.rows, min(checked.rows, checked.rows_per_group)
    for table in ("relevant", "crowded", "hashed", "chosen"):  # of the statistic before
        run(connection, f"DROP TABLE IF EXISTS {table}")
    run(connection, f"CREATE TEMP TABLE relevant AS {query.relevant('u, cell, v', query.needed)}")
    # Parts of units, so that the rows that are kept of one part fit into memory.
    part = f"row_number() OVER () * {most} // {at_once}"
    run(
        connection,
        f"CREATE TEMP TABLE crowded AS SELECT u, {part} AS part "
        f"FROM (SELECT u FROM relevant GROUP BY u HAVING count(*) > {per_group})",
    )
    parts = run(connection, "SELECT DISTINCT part FROM crowded")
    if not parts:
        return "relevant"
    digest = digest_sql(query.rows.content, key=key)
    rows = query.relevant("*", query.rows.every)
    hashed = (
        f"SELECT u, part, cell, v, {digest} AS digest FROM ({rows}) INNER JOIN crowded USING (u)"
    )
    if len(parts) > 1:
        run(connection, f"CREATE TEMP TABLE hashed AS {hashed}")
        hashed = "FROM hashed"
    run(connection, "CREATE TEMP TABLE chosen (cell BIGINT, v HUGEINT)")
    for (part,) in parts:
        of_part = f"(SELECT * FROM ({hashed}) WHERE part = {part})"
        run(connection, f"INSERT INTO chosen {_least(of_part, most, per_group, at_once)}")
    return (
        "(SELECT cell, v FROM relevant ANTI JOIN crowded USING (u) "
        f"UNION ALL SELECT cell, v::{query.value_type} FROM chosen)"
    )


def _least(hashed: str, most: int, per_group: int, at_once: int) -> str:
    """Return SQL of the rows that have the least hashes of their unit.

    Equal rows have equal hashes, and it does not matter which of them stays.
    """
    if per_group == most <= min(at_once, _MOST_IN_A_HEAP):
        # However many rows a unit has, no more than these are kept at any time.
        least = f"arg_min({{'cell': cell, 'v': v}}, digest, {most})"
        kept = f"SELECT unnest({least}) AS kept FROM {hashed} GROUP BY u"
        return f"SELECT kept.cell, kept.v FROM ({kept})"
    of_group = "row_number() OVER (PARTITION BY u, cell ORDER BY digest)"
    placed = f"SELECT *, {of_group} AS place FROM {hashed}"
    of_unit = "row_number() OVER (PARTITION BY u ORDER BY digest)"
    placed = f"SELECT cell, v, {of_unit} AS place FROM ({placed}) WHERE place <= {per_group}"
    return f"SELECT cell, v FROM ({placed}) WHERE place <= {most}"


@dataclass(frozen=True, slots=True)
class _Query:
    """The SQL of a question about rows, whose columns are `c0`, `c1`, ..."""

    checked: CheckedQuestion
    rows: SchemaRows

    @property
    def needed(self) -> list[int]:
        """Positions of the columns that the question names."""
        columns, names = self.checked.schema.columns, self.checked.column_names
        return [i for i, column in enumerate(columns) if column.name in names]

    @property
    def value_type(self) -> str:
        column = self.checked.column
        return number_type(column) if isinstance(column, NumberColumn) else "BIGINT"

    def _value(self, name: str) -> str:
        columns = self.checked.schema.columns
        return next(f"c{i}" for i, column in enumerate(columns) if column.name == name)

    def relevant(self, selected: str, columns: Iterable[int]) -> str:
        """Return SQL of the rows that the filter matches and that have each needed value."""
        inner = (
            f"SELECT *, {self._cell()} AS cell, {self._statistic()} AS v "
            f"FROM ({self.rows.sql(columns)})"
        )
        return f"SELECT {selected} FROM ({inner} WHERE {self._is_relevant()})"

    def _is_relevant(self) -> str:
        tests = ["u IS NOT NULL"]
        tests += [f"{self._value(each.column.name)} IS NOT NULL" for each in self.checked.groups]
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
        """Return the position of a row's group."""
        position = "0::BIGINT"
        for each in self.checked.groups:
            place = group_sql(each, self._value(each.column.name))
            position = f"({position} * {each.size} + {place})"
        return position

    def _statistic(self) -> str:
        column = self.checked.column
        if column is None:
            return "0::BIGINT"
        value = self._value(column.name)
        # The question may have narrower bounds than the schema, by which its claim is.
        return clamp_sql(column, value) if isinstance(column, NumberColumn) else value

    def result(self, connection: Any, kept: str, parts: Sequence[ExactPart]) -> tuple[Vector, ...]:
        """Return the statistics of the rows that enter."""
        sums = [part for part in parts if isinstance(part, RowSum)]
        if len(sums) == len(parts):
            return _sums(connection, kept, self.checked, sums)
        return tuple([_scores(part, connection, kept, self.checked) for part in parts])


class _Aggregates(NamedTuple):
    """SQL aggregates of the rows of a group, each value `v`, and the number that they make."""

    sql: tuple[str, ...]
    number: Callable[..., Fraction]


def _row_count(checked: CheckedQuestion) -> _Aggregates:
    return _Aggregates(("count(*)",), Fraction)


def _sum_of_values(checked: CheckedQuestion) -> _Aggregates:
    return _Aggregates(("sum(v)",), lambda total: total * checked.numbers.grid)


def _sum_about_middle(checked: CheckedQuestion) -> _Aggregates:
    column = checked.numbers
    middle = middle_of(column)
    # Both sums are exact, so their difference is.
    return _Aggregates(
        ("sum(v)", "count(*)"), lambda total, rows: total * column.grid - rows * middle
    )


def _squares_about_middle(checked: CheckedQuestion) -> _Aggregates:
    column = checked.numbers
    unit, middle = column.grid**2, middle_of(column)
    most = max(abs(bound - middle) for bound in column.bounds) / column.grid
    less = middle_square_of(column)
    wide = "BIGINT" if most <= _LARGEST_SQUARED else "HUGEINT"
    # A distance from the middle is at most as long as the longer bound, so the type of `v` has it.
    distance = f"(v - {integer_literal(int(middle / column.grid))})"
    if most <= _PART:
        squares = f"sum({distance}::{wide} * {distance}::{wide})"
        return _Aggregates((squares, "count(*)"), lambda total, rows: total * unit - rows * less)
    # A number is high * part + low, also where it is negative.
    high, low = (f"({distance} {sign} {integer_literal(_PART)})::{wide}" for sign in ("//", "%"))
    products = (f"sum({high} * {high})", f"sum({high} * {low})", f"sum({low} * {low})")
    return _Aggregates(
        (*products, "count(*)"),
        lambda highs, mixed, lows, rows: (
            (highs * _PART**2 + 2 * mixed * _PART + lows) * unit - rows * less
        ),
    )


_ROW_SUMS: Final[dict[VectorName, Callable[[CheckedQuestion], _Aggregates]]] = {
    "count": _row_count,
    "sum": _sum_of_values,
    "sum_about_middle": _sum_about_middle,
    "squares_about_middle": _squares_about_middle,
}


def _sums(
    connection: Any, kept: str, checked: CheckedQuestion, parts: Sequence[RowSum]
) -> tuple[Vector, ...]:
    """Return the sums of the groups, all from one reading of the rows."""
    asked = [_ROW_SUMS[part.name](checked) for part in parts]
    columns = ", ".join(sql for each in asked for sql in each.sql)
    vectors = tuple([Fraction(0)] * checked.cells for _ in parts)
    rows = run(connection, f"SELECT cell, {columns} FROM {kept} GROUP BY cell")
    for cell, *found in rows:
        values = iter(found)
        for vector, each in zip(vectors, asked, strict=True):
            vector[cell] = each.number(*islice(values, len(each.sql)))
    return tuple(map(tuple, vectors))


@singledispatch
def _scores(part: ExactPart, connection: Any, kept: str, scope: Scope) -> Vector:
    """Return the scores of candidates."""
    raise TypeError(f"no SQL of {type(part).__name__}")


@_scores.register
def _category_counts(part: CategoryCounts, connection: Any, kept: str, scope: Scope) -> Vector:
    candidates = len(scope.categories.categories)
    counts = [Fraction(0)] * (scope.cells * candidates)
    rows = run(connection, f"SELECT cell, v, count(*) FROM {kept} GROUP BY cell, v")
    for cell, place, count in rows:
        counts[cell * candidates + place] = Fraction(count)
    return tuple(counts)


@_scores.register
def _quantile_scores(part: QuantileScores, connection: Any, kept: str, scope: Scope) -> Vector:
    """Return the candidates' scores, from how many rows are at each and just above it."""
    column = scope.numbers
    size, candidates = scope.cells, column.candidates
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
            scores.append(part.score(below, total - below - equal[i]))
    return tuple(scores)
