"""Tables as Parquet, by pyarrow of the extra `parquet`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

from streams.errors import needs_extra

_NUMBERS: Final = frozenset({"granted", "refused"})
_FLAGS: Final = frozenset({"ended"})


def missing_parquet() -> str:
    """Return which extra is missing to write Parquet, "" where it is installed."""
    from importlib.util import find_spec

    return needs_extra("Parquet", "pyarrow", "parquet") if find_spec("pyarrow") is None else ""


def write_parquet(out: BinaryIO, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table; counts are whole numbers, all else is text."""
    import pyarrow as pa
    from pyarrow import parquet

    def type_of(name: str) -> Any:
        # Amounts are text: a float would round them, and few readers have such long decimals.
        return pa.int64() if name in _NUMBERS else pa.bool_() if name in _FLAGS else pa.string()

    schema = pa.schema([(name, type_of(name)) for name in columns])
    parquet.write_table(pa.Table.from_pylist(list(rows), schema=schema), out)
