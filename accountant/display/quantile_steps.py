"""Which columns of a schema have too many candidates for a quantile, and the step that helps."""

from __future__ import annotations

from fractions import Fraction

from msgspec.structs import replace

from accountant.questions.decimals import decimal_text
from accountant.questions.schema import MAX_CANDIDATES, NumberColumn, Schema


def columns_without_quantiles(schema: Schema) -> list[NumberColumn]:
    """Return the columns of numbers of which no quantile is answered."""
    numbers = [each for each in schema.columns if isinstance(each, NumberColumn)]
    return [each for each in numbers if each.candidates > MAX_CANDIDATES]


def least_step(column: NumberColumn) -> str:
    """Return the least of 1, 2 or 5 times a power of ten by which a column has quantiles."""
    lower, upper = column.bounds
    least = max(column.grid, (upper - lower) / MAX_CANDIDATES)
    power = -column.places  # of the grid, so that each step is on it
    while 5 * Fraction(10) ** power < least:
        power += 1
    steps = (decimal_text(each * Fraction(10) ** power) for each in (1, 2, 5, 10))
    return next(step for step in steps if replace(column, step=step).candidates <= MAX_CANDIDATES)


def no_quantile_words(column: NumberColumn) -> str:
    """Return that a column has no quantile, and what to add to the schema."""
    return (
        f"{column.name}: no quantile or median ({column.candidates:,} candidates, at most "
        f'{MAX_CANDIDATES:,}): add "step": "{least_step(column)}".'
    )
