"""Compositions for parameters fixed in advance: comparison only, never an adaptive bound."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from research.comparators import (
    advanced_2010_epsilon,
    basic_epsilon,
    optimal_delta,
    quoted_2016_epsilon,
    strong_epsilon,
)
from tests.accountant.reference.common import Bound, Inputs, Inverse


def runs(inputs: Inputs) -> tuple[tuple[Decimal, int], ...]:
    return tuple((Decimal(epsilon), count) for epsilon, count in inputs["rle"])


def strong(inputs: Inputs) -> Decimal:
    return strong_epsilon(runs(inputs), delta=Decimal(inputs["d"]))


def quoted(inputs: Inputs) -> Decimal:
    n = int(Decimal(inputs["n"]))
    return quoted_2016_epsilon(runs(inputs), delta=Decimal(inputs["d1"]), n=n)


def optimal(inputs: Inputs) -> Decimal:
    return optimal_delta(
        mechanisms=inputs["k"], epsilon=Decimal(inputs["e"]), target=Decimal(inputs["eg"])
    )


BOUNDS: Final[dict[str, Bound | Inverse]] = {
    "lecture_fig1_basic": Bound("upper", lambda i: basic_epsilon(runs(i))),
    "strong_composition": Bound("upper", strong),
    "fig3_advanced_composition": Bound("upper", strong),
    "lecture_fig1_strong": Bound("upper", strong),
    "advanced_composition_2010": Bound(
        "upper", lambda i: advanced_2010_epsilon(runs(i), delta=Decimal(i["d"]))
    ),
    "advanced_2016_odometer_as_quoted_repaired": Bound("upper", quoted),
    "optimal_composition_delta": Bound("upper", optimal),
}
