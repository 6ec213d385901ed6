"""What cells of each type are read as: of `cells`, which of them are missing, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from streams.sources.cells import _FLOATS, CSV_TEXT
from streams.sources.time_cells import DATE_TYPES, INSTANT_TYPES

Use = Literal["number", "category", "boolean", "date", "unit"]
"""What a schema declares a column as; a column of times is read as one of dates."""


@dataclass(frozen=True, slots=True)
class TypeReading:
    """Which cells of a type are missing.

    Attributes:
        missing: how many of them may be.
        which: in words; NULL, which is always missing, is left out.
    """

    missing: Literal["none", "some", "all"]
    which: str = ""


_EACH: Final = TypeReading("none")
_NO_CELL: Final = TypeReading("all", "every cell")
_ONLY_0_1: Final = TypeReading("some", "numbers but 0 and 1")
_NO_NUMBER: Final = TypeReading("some", "texts that are no number")
_NO_DATE: Final = TypeReading("some", "texts that are no date from first to last")
_ANOTHER_DATE: Final = TypeReading("some", "dates that are not from first to last")

_WHOLE: Final[dict[Use, TypeReading]] = {
    "number": _EACH,
    "category": _EACH,
    "boolean": _ONLY_0_1,
    "unit": _EACH,
}
_BIGNUM: Final = TypeReading("some", "numbers of more than 100 digits")


def _float(limit: int) -> dict[Use, TypeReading]:
    names = TypeReading("some", f"fractions, and numbers from 2^{limit.bit_length() - 1} on,")
    nan = TypeReading("some", "NaN values")
    return {"number": nan, "category": names, "boolean": _ONLY_0_1, "unit": names}


def _text(not_boolean: str) -> dict[Use, TypeReading]:
    boolean = TypeReading("some", not_boolean)
    return {
        "number": _NO_NUMBER,
        "category": _EACH,
        "boolean": boolean,
        "date": _NO_DATE,
        "unit": _EACH,
    }


_READINGS: Final[dict[str, dict[Use, TypeReading]]] = {
    **dict.fromkeys(
        (
            *("tinyint", "smallint", "integer", "bigint", "hugeint"),
            *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"),
            "decimal without places",
        ),
        _WHOLE,
    ),
    "bignum": {**_WHOLE, "category": _BIGNUM, "unit": _BIGNUM},
    **{name: _float(limit) for name, limit in _FLOATS.items()},
    "decimal": {"number": _EACH},
    "varchar": _text("texts but 'true' and 'false'"),
    "enum": _text("texts but 'true' and 'false'"),
    CSV_TEXT: _text("texts but true, false, 1 and 0"),
    "uuid": {"category": _EACH, "unit": _EACH},
    "boolean": {"boolean": _EACH},
    **{name: {"date": _ANOTHER_DATE} for name in DATE_TYPES | INSTANT_TYPES},
}
"""By DuckDB's name of a type. What is not here is missing in each row."""


def reading_of(type_name: str, use: Use) -> TypeReading:
    """Return which cells of a type are missing in a column declared as something.

    Args:
        type_name: as `streams.sources.source_facts` has it, such as `decimal(18,2)`.
    """
    type_id, _, parameters = type_name.partition("(")
    if type_id == "decimal" and parameters.endswith(",0)"):
        type_id = "decimal without places"
    return _READINGS.get(type_id, {}).get(use, _NO_CELL)
