"""Half widths of 95 % intervals of means and variances: before, now, and with all else known.

`python -m research.interval_widths` prints the table of docs/explanation/interval-widths.md. The
noisy numbers are the exact ones, so it needs no draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Final

from accountant.questions import Draw, Schema, check_schema, derive, parse_noise, parse_question
from accountant.questions.draw_errors import half_width, noises_of
from accountant.questions.error_at_confidence import confidence_of_each
from accountant.questions.parts import middle_of, middle_square_of
from accountant.questions.quotients import Interval, clamp
from accountant.questions.schema import DataSource, NumberColumn
from accountant.questions.statistics import EstimateQuestion

LOWER, UPPER = 0, 120
NOISES: Final = ("epsilon: 1", "rho: 0.1")
"""Rounded Gaussian noise has the widths of the discrete one, the default of a rho."""
COUNTS: Final = (30, 100, 1_000, 10_000)
MEANS: Final = (60, 85)
"""In the middle of the bounds, and away from it."""
DEVIATION: Final = 15
CONFIDENCE: Final = Decimal("0.95")


@dataclass(frozen=True, slots=True)
class Width:
    """Half widths of one statistic under one noise.

    Attributes:
        before: of the corners of intervals of each part, by the union bound.
        now: of the product.
        least: of the noise at the true values, if the exact count is known.
    """

    statistic: str
    noise: str
    count: int
    mean: int
    before: Fraction
    now: Fraction
    least: Fraction


def schema() -> Schema:
    """Return a schema of one number column."""
    column = NumberColumn(name="age", lower=str(LOWER), upper=str(UPPER))
    return check_schema(
        Schema(
            source=DataSource(kind="parquet", name="people"),
            columns=(column,),
            neighbours="add_remove",
        )
    )


def widths() -> Iterator[Width]:
    """Yield the widths of each statistic, noise, mean and count."""
    for statistic, noise, mean, count in product(("mean", "variance"), NOISES, MEANS, COUNTS):
        yield width_of(statistic, noise, mean=mean, count=count)


def width_of(statistic: str, noise: str, *, mean: int, count: int) -> Width:
    """Return the widths of a statistic of so many rows with a mean, and a deviation of 15."""
    checked = parse_question(f"{statistic}(age)", schema())
    question, column = checked.statistic, checked.numbers
    assert isinstance(question, EstimateQuestion)
    draws = derive(checked, parse_noise(noise)).draws
    u, n = mean - middle_of(column), Fraction(count)
    q = middle_square_of(column)
    numbers = [n, n * u, n * (DEVIATION**2 + u**2 - q)][: len(draws)]
    noises = noises_of(draws)
    (now,) = question.intervals(column, [numbers], confidence=CONFIDENCE, noises=noises)
    one = Fraction(1)
    known = [u, one] if statistic == "mean" else [q + u**2 - DEVIATION**2, 2 * u, one]
    return Width(
        statistic,
        noise,
        count,
        mean,
        before=_half(of_corners(column, draws, numbers)),
        now=_half(now),
        least=noises.half_width(known, CONFIDENCE) / count,
    )


def of_corners(
    column: NumberColumn, draws: Sequence[Draw], numbers: Sequence[Fraction]
) -> Interval:
    """Return the interval that holds if those of all parts hold, each of which misses less."""
    confidence = confidence_of_each(CONFIDENCE, len(draws))
    ends = []
    for draw, number in zip(draws, numbers, strict=True):
        width = half_width(draw, confidence)
        ends.append((number - width, number + width))
    means = _quotients(ends[1], ends[0])
    if len(draws) == 2:
        low, high = (middle_of(column) + each for each in means)
        return clamp(low, column.bounds), clamp(high, column.bounds)
    squares = _quotients(ends[2], ends[0])
    ends_of_squares = [each**2 for each in means]
    least = Fraction(0) if means[0] <= 0 <= means[1] else min(ends_of_squares)
    possible = Fraction(0), Fraction(UPPER - LOWER, 2) ** 2
    q = middle_square_of(column)
    low, high = q + squares[0] - max(ends_of_squares), q + squares[1] - least
    return clamp(low, possible), clamp(high, possible)


def _quotients(total: Interval, count: Interval) -> Interval:
    corners = [each / max(n, Fraction(1)) for each, n in product(total, count)]
    return min(corners), max(corners)


def _half(interval: Interval) -> Fraction:
    return (interval[1] - interval[0]) / 2


def main() -> None:
    """Print the table."""
    print("| statistic | noise | mean | rows | before | now | times narrower | least |")
    print("|---|---|---|---|---|---|---|---|")
    for each in widths():
        ratio = float(each.before / each.now)
        numbers = " | ".join(f"{float(x):.4g}" for x in (each.before, each.now))
        print(
            f"| {each.statistic} | `{each.noise}` | {each.mean} | {each.count:,} | {numbers} "
            f"| {ratio:.2f} | {float(each.least):.4g} |"
        )


if __name__ == "__main__":
    main()
