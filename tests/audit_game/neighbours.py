"""The schema of the games, and for each question the two neighbouring tables that differ most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Final

from accountant.policy import Neighbours
from accountant.questions import (
    CheckedQuestion,
    Derivation,
    Schema,
    SelectionStatistic,
    check_schema,
    evaluate,
)
from accountant.questions.parts import Vector
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    DataSource,
    NumberColumn,
    UnitColumn,
)

Row = dict[str, object]
ROWS: Final = 2
KEY: Final = b"key of the games"
_SURPLUS: Final = 3
"""Rows of a unit beyond those that may enter."""


def game_schema(neighbours: Neighbours, *, rows: int = ROWS) -> Schema:
    """Return a schema on which every kind of question can be asked."""
    return check_schema(
        Schema(
            source=DataSource(kind="parquet", name="games"),
            columns=(
                NumberColumn(name="x", lower="-2", upper="3"),
                # Far more steps of its grid than floats have digits.
                NumberColumn(name="fine", lower="0", upper="999999.999999999999", places=12),
                # Candidates -2, 0, 2.
                NumberColumn(name="y", lower="-2", upper="3", step="2"),
                CategoryColumn(name="c", categories=("a", "b", "d")),
                BooleanColumn(name="t", missing=False),
            ),
            unit=UnitColumn(column="unit", rows=rows),
            neighbours=neighbours,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The exact statistics of a question on two neighbouring tables."""

    before: tuple[Vector, ...]
    after: tuple[Vector, ...]


# Within the bounds, at them, beyond them, and cells that the schema reads as missing.
_XS: Final = (0, -2, 3, -9, 9, "7e400")
_CELLS: Final[list[Row]] = [
    {"x": x, "fine": fine, "y": y, "c": c, "t": t}
    for x, (fine, y), c, t in product(
        _XS, ((0, 0), ("1e999", 9), (-3, "-9e9")), ("a", "b"), (True, None)
    )
] + [{"x": math.nan, "fine": "?", "y": None, "c": "z", "t": 2}]


def other_units(categories: str, ys: Sequence[int] = (1,)) -> list[Row]:
    """Return a row of each other unit, which are on both tables.

    Args:
        categories: a letter for each.
        ys: their values of `y`, repeated as often as there are units; 1 is between two candidates.
    """
    return [
        {"unit": f"v{i}", "x": i % 2, "fine": i, "y": ys[i % len(ys)], "c": c, "t": i % 4 < 2}
        for i, c in enumerate(categories)
    ]


def _unit_rows(rows: int) -> Iterator[list[Row]]:
    """Yield what one unit may have: nothing, all its rows, or more than may enter."""
    yield []
    for cells in _CELLS:
        yield [{"unit": "u", **cells}] * (rows + _SURPLUS)


def worst_pair(checked: CheckedQuestion, derivation: Derivation, others: Sequence[Row]) -> Pair:
    """Return the neighbours whose statistics differ most, each measured by what is charged.

    The unit has as many equal rows as count, or none: there the difference is largest
    (docs/reference/questions.md). In `replace` it may have any of them on both tables.

    Args:
        others: rows of the other units, which are on both tables.
    """
    found = dict.fromkeys(
        evaluate(checked, [*others, *own], key=KEY) for own in _unit_rows(checked.rows)
    )
    absent = next(iter(found))
    befores = [absent] if checked.schema.neighbours == "add_remove" else list(found)
    before, after = max(
        ((one, other) for one in befores for other in found),
        key=lambda pair: _change(derivation, *pair),
    )
    return Pair(before=before, after=after)


def _change(
    derivation: Derivation, before: tuple[Vector, ...], after: tuple[Vector, ...]
) -> Fraction:
    """Return by how much statistics differ, in the norm of their noise."""
    total = Fraction(0)
    for draw, one, other in zip(derivation.draws, before, after, strict=True):
        statistic = draw.statistic
        moved = [b - a for a, b in zip(one, other, strict=True)]
        if isinstance(statistic, SelectionStatistic):
            n = statistic.candidates
            groups = [moved[i : i + n] for i in range(0, len(moved), n)]
            total += sum((max(each) - min(each) for each in groups), Fraction(0))
        elif draw.law == "discrete_laplace":
            total += sum(map(abs, moved), Fraction(0)) / statistic.l1
        else:
            total += sum((each**2 for each in moved), Fraction(0)) / statistic.l2_squared
    return total
