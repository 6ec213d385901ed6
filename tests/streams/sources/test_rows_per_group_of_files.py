"""Rows of a unit in each group, chosen in SQL as by the reference."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from accountant.questions.schema import CategoryColumn, NumberColumn, UnitColumn
from tests.accountant.questions.schemas import replaced, small_schema
from tests.streams.sources.source_files import assert_equal_to_the_reference

SCHEMA = replaced(
    small_schema(),
    columns=(
        NumberColumn(name="x", lower="0", upper="1000", step="50"),
        CategoryColumn(name="c", categories=("a", "b", "c", "d")),
    ),
    unit=UnitColumn(column="unit", rows=5),
)
# Unit 0 is crowded in one group, 1 in all together, 2 in none, 3 in both.
ROWS = [
    *((0, "a", x) for x in range(9)),
    *((1, c, x) for c in "abcd" for x in range(20, 22)),
    *((2, c, 30) for c in "abcd"),
    *((3, c, x) for c in "aabbbc" for x in range(40, 44)),
]


def test_a_file_has_the_rows_of_least_hash_in_each_group(tmp_path: Path) -> None:
    columns = {
        "unit": (pa.int64(), [unit for unit, _, _ in ROWS]),
        "c": (pa.string(), [c for _, c, _ in ROWS]),
        "x": (pa.int64(), [x for _, _, x in ROWS]),
    }
    texts = ["count", "sum(x)", "median(x)", "count, mean(x)"]
    for i, text in enumerate(texts):
        for clauses in ("rows_per_group 1", "rows_per_group 2", "rows 3 rows_per_group 2"):
            asked = f"{text} by c {clauses}"
            assert_equal_to_the_reference(
                asked, SCHEMA, columns, tmp_path, key=bytes([i]), kinds=("parquet",)
            )
