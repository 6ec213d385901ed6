"""The exact statistics of a question in SQL, equal to `accountant.questions.evaluate`.

The rows of the filter are read once, for all statistics of a question. Each counts those that have
a value of its column; where there are units, at most so many of a unit, chosen by the keyed hash
among these alone. Sums are of integers on the columns' grids: with up to 10^10 rows, none leaves
DuckDB's 127 bits. Each part of a question has its SQL here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from itertools import accumulate
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
from accountant.questions.schema import Column, NumberColumn
from accountant.questions.scope import Scope
from accountant.questions.sensitivity import VectorName
from accountant.questions.statistics import CategoryCounts, QuantileScores
from streams.sources.cells import clamp_sql
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
_EACH_ROW: Final = "n"
"""A column without NULL in the rows of the filter: those that a count has."""


def statistics(
    connection: Any, rows: SchemaRows, checked: CheckedQuestion, *, key: bytes, at_once: int
) -> tuple[Vector, ...]:
    """Return the exact statistics of a question, as `evaluate` does.

    Args:
        connection: to DuckDB, which has the rows' functions.
        key: of the hash that chooses a unit's rows.
        at_once: rows of crowded units that are chosen together, so that they fit into memory.
    """
    query = _Query(checked, rows)
    if checked.schema.unit is UNSET:
        kept = f"({query.relevant(['cell', *query.names], query.needed)})"
    else:
        kept = _bounded(connection, query, key=key, at_once=at_once)
    return _vectors(connection, kept, query)


def _bounded(connection: Any, query: _Query, *, key: bytes, at_once: int) -> str:
    """Return SQL of the rows that enter: NULL in what they do not enter.

    At most so many of a unit enter each statistic, chosen among those that have its value.
    """
    checked, sets, every = query.checked, query.row_sets, [*query.rows.every]
    most, per_group = checked.rows, min(checked.rows, checked.rows_per_group)
    content = ["u", "long", "cell", *dict.fromkeys([*query.names, *(f"c{i}" for i in every)])]
    is_read_once = query.needed == every
    stored = content if is_read_once else ["u", "cell", *query.names]
    run(connection, f"CREATE TEMP TABLE relevant AS {query.relevant(stored, query.needed)}")
    # No unit has more rows in another set than it has in the set of each row.
    counted = [_EACH_ROW] if _EACH_ROW in sets else [*sets]
    is_crowded = " OR ".join(f"count({each}) > {per_group}" for each in counted)
    # Parts of units, so that the rows that are kept of one part fit into memory.
    part = f"row_number() OVER () * {most} // {at_once}"
    run(
        connection,
        f"CREATE TEMP TABLE crowded AS SELECT u, {part} AS part "
        f"FROM (SELECT u FROM relevant GROUP BY u HAVING {is_crowded})",
    )
    ((last,),) = run(connection, "SELECT max(part) FROM crowded")
    if last is None:
        return "relevant"
    rows = "relevant"
    if not is_read_once:
        rows = f"({query.relevant(content, every, units='SELECT u FROM crowded')})"
    digest = digest_sql(query.rows.content, key=key)
    names = ", ".join(query.names)
    columns = f"u, part, cell, {names}, {digest} AS digest"
    hashed = f"SELECT {columns} FROM {rows} INNER JOIN crowded USING (u)"
    if last or len(sets) > 1:  # else each row is hashed once anyway
        run(connection, f"CREATE TEMP TABLE hashed AS {hashed}")
        hashed = "FROM hashed"
    kept = [f"SELECT cell, {names} FROM relevant ANTI JOIN crowded USING (u)"]
    for i, (test, own) in enumerate(sets.items()):
        entered = ["cell", *own]
        listed = ", ".join(entered)
        run(connection, f"CREATE TEMP TABLE chosen{i} AS SELECT {listed} FROM relevant LIMIT 0")
        for number in range(last + 1):
            of_part = f"(FROM ({hashed}) WHERE part = {number} AND {test} IS NOT NULL)"
            least = _least(of_part, entered, most, per_group, at_once)
            run(connection, f"INSERT INTO chosen{i} {least}")
        kept.append(f"SELECT * FROM chosen{i}")
    return f"({' UNION ALL BY NAME '.join(kept)})"


def _least(hashed: str, columns: Sequence[str], most: int, per_group: int, at_once: int) -> str:
    """Return SQL of the rows that have the least hashes of their unit.

    Equal rows have equal hashes, and it does not matter which of them stays.
    """
    if per_group == most <= min(at_once, _MOST_IN_A_HEAP):
        # However many rows a unit has, no more than these are kept at any time.
        row = ", ".join(f"'{each}': {each}" for each in columns)
        kept = f"SELECT unnest(arg_min({{{row}}}, digest, {most})) AS kept FROM {hashed} GROUP BY u"
        return f"SELECT {', '.join(f'kept.{each}' for each in columns)} FROM ({kept})"
    of_group = "row_number() OVER (PARTITION BY u, cell ORDER BY digest)"
    of_unit = "row_number() OVER (PARTITION BY u ORDER BY digest)"
    least = f"(FROM {hashed} QUALIFY {of_group} <= {per_group})"
    return f"SELECT {', '.join(columns)} FROM {least} QUALIFY {of_unit} <= {most}"


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
    def row_sets(self) -> dict[str, list[str]]:
        """By the column whose missing values leave rows out, the columns that statistics read.

        What a statistic reads depends on no other column: a row that lacks one value enters the
        statistics of the others, and takes no other row's place in them.
        """
        sets = dict[str, list[str]]()
        for each in self.checked.alone:
            name, test = self._name(each.column), _EACH_ROW
            if each.column is not None and each.column.missing is UNSET:
                test = name
            own = sets.setdefault(test, [test])
            if name not in own:
                own.append(name)
        return sets

    @property
    def names(self) -> list[str]:
        """The columns that statistics read."""
        return [name for own in self.row_sets.values() for name in own]

    def _name(self, column: Column | None) -> str:
        if column is None:
            return _EACH_ROW
        columns = self.checked.schema.columns
        return next(f"c{i}" for i, each in enumerate(columns) if each.name == column.name)

    def value(self, column: Column | None) -> str:
        """Return the SQL of what a statistic of a column is of; NULL where it has no row."""
        name = self._name(column)
        if not isinstance(column, NumberColumn) or column in self.checked.schema.columns:
            return name
        # The question has narrower bounds than the schema, by which its claim is.
        return f"(CASE WHEN {name} IS NOT NULL THEN {clamp_sql(column, name)} END)"

    def relevant(self, selected: Iterable[str], columns: Iterable[int], *, units: str = "") -> str:
        """Return SQL of the rows that the filter matches and that some statistic has."""
        rows = self.rows.sql(columns, units=units)
        inner = f"SELECT *, {self._cell()} AS cell, TRUE AS {_EACH_ROW} FROM ({rows})"
        return f"SELECT {', '.join(selected)} FROM ({inner}) WHERE {self._is_relevant()}"

    def _is_relevant(self) -> str:
        tests = ["u IS NOT NULL"]
        tests += [f"{self._name(each.column)} IS NOT NULL" for each in self.checked.groups]
        tests.append(f"({' OR '.join(f'{each} IS NOT NULL' for each in self.row_sets)})")
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
            place = group_sql(each, self._name(each.column))
            position = f"({position} * {each.size} + {place})"
        return position


class _Totals(NamedTuple):
    """What SQL found of a group: of all its rows, or of those at one place.

    Attributes:
        place: 0 of all.
        numbers: of the part's aggregates.
    """

    cell: int
    place: int
    numbers: list[int]


class _Aggregates(NamedTuple):
    """SQL of a part, and the vector that it makes.

    Attributes:
        sql: aggregates of rows of a group.
        place: of what sets these rows apart, 0 or more; "" where nothing does.
    """

    sql: tuple[str, ...]
    vector: Callable[[Iterable[_Totals]], Vector]
    place: str = ""


def _vectors(connection: Any, kept: str, query: _Query) -> tuple[Vector, ...]:
    """Return the statistics of the rows that enter, all from one reading of them."""
    planned = plan_of(query.checked).parts
    values = _named("v", (query.value(each.scope.column) for each in planned))
    asked = [
        _aggregates(each.part, each.scope, values[query.value(each.scope.column)])
        for each in planned
    ]
    places = _named("p", (each.place for each in asked if each.place))
    aggregates = _named("a", (sql for each in asked for sql in each.sql))
    sets = [f"(cell, {name})" for name in places.values()]
    if not all(each.place for each in asked):
        sets.append("(cell)")
    # NULL is of all places, so a row without a value is at -1.
    placed = ["*", *(f"coalesce({sql}, -1)::BIGINT AS {name}" for sql, name in places.items())]
    valued = ["cell", *(f"{sql} AS {name}" for sql, name in values.items())]
    columns = ["cell", *places.values(), *aggregates.values()]
    found = run(
        connection,
        f"SELECT {', '.join(['cell', *places.values(), *aggregates])} "
        f"FROM (SELECT {', '.join(placed)} FROM (SELECT {', '.join(valued)} FROM {kept})) "
        f"GROUP BY GROUPING SETS ({', '.join(sets)})",
    )
    rows = [dict(zip(columns, row, strict=True)) for row in found]
    vectors = list[Vector]()
    for each in asked:
        own = [
            _Totals(row["cell"], place, [row[aggregates[sql]] or 0 for sql in each.sql])
            for row in rows
            if (place := _place(row, places, each.place)) is not None
        ]
        vectors.append(each.vector(own))
    return tuple(vectors)


def _named(letter: str, each_sql: Iterable[str]) -> dict[str, str]:
    """Return a name for each SQL."""
    return {sql: f"{letter}{i}" for i, sql in enumerate(dict.fromkeys(each_sql))}


def _place(row: Mapping[str, int | None], places: Mapping[str, str], place: str) -> int | None:
    """Return at which place the rows are that a row of the result is of, None if at no one."""
    if place:
        found = row[places[place]]
        return None if found is None or found < 0 else found
    return 0 if all(row[name] is None for name in places.values()) else None


@singledispatch
def _aggregates(part: ExactPart, scope: Scope, v: str) -> _Aggregates:
    """Return the SQL of a part.

    Args:
        v: SQL of the value of the statistic's column; NULL in rows that do not enter.
    """
    raise TypeError(f"no SQL of {type(part).__name__}")


@_aggregates.register
def _row_sum(part: RowSum, scope: Scope, v: str) -> _Aggregates:
    sql, number = _ROW_SUMS[part.name](scope, v)

    def vector(found: Iterable[_Totals]) -> Vector:
        sums = [Fraction(0)] * scope.cells
        for each in found:
            sums[each.cell] = number(*each.numbers)
        return tuple(sums)

    return _Aggregates(sql, vector)


_Sum = tuple[tuple[str, ...], Callable[..., Fraction]]
"""SQL aggregates of the rows of a group, and the number that they make."""


def _row_count(scope: Scope, v: str) -> _Sum:
    return (f"count({v})",), Fraction


def _sum_of_values(scope: Scope, v: str) -> _Sum:
    return (f"sum({v})",), lambda total: total * scope.numbers.grid


def _sum_about_middle(scope: Scope, v: str) -> _Sum:
    column = scope.numbers
    middle = middle_of(column)
    # Both sums are exact, so their difference is.
    return (f"sum({v})", f"count({v})"), lambda total, rows: total * column.grid - rows * middle


def _squares_about_middle(scope: Scope, v: str) -> _Sum:
    column = scope.numbers
    unit, middle = column.grid**2, middle_of(column)
    most = max(abs(bound - middle) for bound in column.bounds) / column.grid
    less = middle_square_of(column)
    wide = "BIGINT" if most <= _LARGEST_SQUARED else "HUGEINT"
    # A distance from the middle is at most as long as the longer bound, so the type of `v` has it.
    distance = f"({v} - {integer_literal(int(middle / column.grid))})"
    if most <= _PART:
        squares = f"sum({distance}::{wide} * {distance}::{wide})"
        return (squares, f"count({v})"), lambda total, rows: total * unit - rows * less
    # A number is high * part + low, also where it is negative.
    high, low = (f"({distance} {sign} {integer_literal(_PART)})::{wide}" for sign in ("//", "%"))
    products = (f"sum({high} * {high})", f"sum({high} * {low})", f"sum({low} * {low})")
    return (
        (*products, f"count({v})"),
        lambda highs, mixed, lows, rows: (
            (highs * _PART**2 + 2 * mixed * _PART + lows) * unit - rows * less
        ),
    )


_ROW_SUMS: Final[dict[VectorName, Callable[[Scope, str], _Sum]]] = {
    "count": _row_count,
    "sum": _sum_of_values,
    "sum_about_middle": _sum_about_middle,
    "squares_about_middle": _squares_about_middle,
}


@_aggregates.register
def _category_counts(part: CategoryCounts, scope: Scope, v: str) -> _Aggregates:
    candidates = len(scope.categories.categories)

    def vector(found: Iterable[_Totals]) -> Vector:
        counts = [Fraction(0)] * (scope.cells * candidates)
        for each in found:
            counts[each.cell * candidates + each.place] = Fraction(*each.numbers)
        return tuple(counts)

    return _Aggregates((f"count({v})",), vector, place=v)


@_aggregates.register
def _quantile_scores(part: QuantileScores, scope: Scope, v: str) -> _Aggregates:
    """Scores follow from how many rows are at each candidate and just above it."""
    column = scope.numbers
    lower = integer_literal(int(column.bounds[0] / column.grid))
    step = integer_literal(int(column.step_size / column.grid))
    from_lower = f"({v} - {lower})"
    # Twice the last candidate that is not above the value, and one more if the value is.
    place = f"({from_lower} // {step} * 2 + ({from_lower} % {step} > 0)::BIGINT)"

    def vector(found: Iterable[_Totals]) -> Vector:
        counts = [[0] * (2 * column.candidates) for _ in range(scope.cells)]
        for each in found:
            (counts[each.cell][each.place],) = each.numbers
        return tuple([score for each in counts for score in _scores(part, each)])

    return _Aggregates((f"count({v})",), vector, place=place)


def _scores(part: QuantileScores, counts: list[int]) -> Iterator[Fraction]:
    """Yield the candidates' scores, from how many rows are at each and just above it."""
    until = [0, *accumulate(counts)]
    for i in range(0, len(counts), 2):
        yield part.score(until[i], until[-1] - until[i + 1])
