"""Datasets and usage as pandas or Arrow tables, with exact amounts.

    to_pandas(ledger.datasets())
    to_arrow(ledger.usage("census"))

Nothing else needs these libraries, so the package does not install them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from msgspec import UNSET, Struct

from accountant.views.datasets import DatasetView
from accountant.views.usage import UsageView

_AMOUNTS: Final = frozenset({"budget", "totals", "left", "odometers", "spent"})
_POLICY: Final = ("filter", "unit", "neighbours", "horizon")
_COUNTS: Final = ("outcomes_", "reasons_")
_HIDDEN: Final = frozenset({"partition_sequence", "ceiling"})


def to_pandas(views: Iterable[DatasetView | UsageView]) -> Any:
    """Return a `pandas.DataFrame` with a row for each view; amounts are `Decimal`, times UTC.

    Raises: ImportError: pandas is not installed.
    """
    return pandas_frame(_columns_of(rows_of(views, Decimal)))


def to_arrow(views: Iterable[DatasetView | UsageView]) -> Any:
    """Return a `pyarrow.Table` with a row for each view; amounts are the log's text, times UTC.

    Amounts are text because an unbounded sum is `inf`, which an Arrow decimal cannot be.

    Raises: ImportError: pyarrow is not installed.
    """
    return arrow_table(_columns_of(rows_of(views, str)))


def pandas_frame(columns: dict[str, list[Any]]) -> Any:
    """Return a `pandas.DataFrame` of columns.

    Raises: ImportError: pandas is not installed.
    """
    return _module("pandas", "to_pandas").DataFrame(columns)


def arrow_table(columns: dict[str, list[Any]]) -> Any:
    """Return a `pyarrow.Table` of columns.

    Raises: ImportError: pyarrow is not installed.
    """
    return _module("pyarrow", "to_arrow").table(columns)


def rows_of(
    views: Iterable[DatasetView | UsageView], amount: type[Decimal] | type[str]
) -> list[dict[str, Any]]:
    """Return each view as one flat row: `left_epsilon`, `outcomes_granted`.

    Args:
        amount: converts the exact text of an amount.
    """
    return [_row(view, amount) for view in views]


def _row(view: DatasetView | UsageView, amount: type[Decimal] | type[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in view.__struct_fields__:
        value = getattr(view, name)
        if name in _HIDDEN or value is UNSET:
            continue
        if name == "policy":
            row |= {field: getattr(value, field) for field in _POLICY}
        elif isinstance(value, Struct):
            continue  # a table has no cell for it
        elif isinstance(value, dict):
            row |= {f"{name}_{key}": _cell(name, each, amount) for key, each in value.items()}
        else:
            row[name] = _cell(name, value, amount)
    return row


def _cell(name: str, value: object, amount: type[Decimal] | type[str]) -> object:
    if name in _AMOUNTS and isinstance(value, str):
        return amount(value)
    if name.endswith("_at") and isinstance(value, str):
        return datetime.fromisoformat(value)
    return ", ".join(value) if isinstance(value, tuple) else value


def _columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return rows as columns, in order of first appearance.

    A missing value is None, a missing count 0.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    lacking = {name: 0 for name in names if name.startswith(_COUNTS)}
    return {name: [row.get(name, lacking.get(name)) for row in rows] for name in names}


def _module(name: str, caller: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(
            f"{caller} needs {name}, which is not installed. Run `python -m pip install {name}`"
        ) from None
