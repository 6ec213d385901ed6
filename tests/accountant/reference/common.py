"""What the comparisons with reference values share: rows, directions, our sums."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal

from accountant import claims as c
from accountant.amounts import INFINITE, UNIT
from accountant.claims import check_claim
from accountant.claims.price import price

OPENS = ("tests/vectors/**",)

Inputs = dict[str, Any]
Number = Fraction | Decimal | float | int

_OWN: Final = Path(__file__).parents[2] / "vectors" / "bounds.json"
VECTORS: Final = Path(os.environ.get("ACCOUNTANT_VECTORS", _OWN))
"""The file of rows; `ACCOUNTANT_VECTORS` names another one of the same format."""


def _as_on_the_wire(value: Any) -> Any:
    """Return inputs with exponents as claims have them: `1e-9` where Decimal writes `1E-9`."""
    if isinstance(value, list):
        return [_as_on_the_wire(each) for each in value]
    return value.lower() if isinstance(value, str) else value


ROWS: Final[list[dict[str, Any]]] = json.loads(VECTORS.read_text())
for _row in ROWS:
    _row["inputs"] = {name: _as_on_the_wire(value) for name, value in _row["inputs"].items()}


@dataclass(frozen=True, slots=True)
class Bound:
    """How one bound of the vectors is answered by our own functions.

    Attributes:
        side: "upper" (rounded up), "lower" (rounded down), "equal" (an exact quantity).
        ours: from a row's inputs to our value; None where we refuse; math.inf.
        log: `ours` returns the natural logarithm of the value, for values that no float holds.
    """

    side: Literal["upper", "lower", "equal"]
    ours: Callable[[Inputs], Number | None]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Inverse:
    """A formula whose inverse is what we hold: a capacity.

    Attributes:
        ours: from a row's value and inputs to (our capacity, the exact total that it inverts).
    """

    ours: Callable[[str, Inputs], tuple[Fraction, Fraction]]


def total(inputs: Inputs, name: str) -> Fraction:
    """Return one of our sums after the pure claims of a run-length encoded list."""
    units = 0
    for epsilon, count in inputs["rle"]:
        # Not as one `repeat`, which holds at most a million.
        amount = price(check_claim(c.Pure(epsilon)), (name,)).amounts[0]
        assert amount != INFINITE
        units += int(amount) * count
    return Fraction(units, UNIT)


def float_up(text: str) -> float:
    value = float(Fraction(text))
    return value if Fraction(value) >= Fraction(text) else math.nextafter(value, math.inf)
