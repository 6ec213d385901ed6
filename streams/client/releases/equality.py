"""Compares a result with its decoded copy: equal values of the same types and shapes."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import Any


def is_same(one: Any, other: Any) -> bool:
    """Whether two results have equal values and types; a NaN equals a NaN."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is float:
        return repr(one) == repr(other)  # also distinguishes 0 from -0
    if kind is complex:
        return is_same(one.real, other.real) and is_same(one.imag, other.imag)
    if kind is Decimal:
        return bool(one.as_tuple() == other.as_tuple())
    if kind in {list, tuple}:
        return len(one) == len(other) and all(map(is_same, one, other))
    if kind in {set, frozenset}:
        return _is_same_set(one, other)
    if kind is dict:
        return is_same([*one], [*other]) and is_same([*one.values()], [*other.values()])
    if kind in {dt.datetime, dt.time}:
        zones = one.tzinfo == other.tzinfo and one.tzname() == other.tzname()
        return bool(zones and one == other and one.fold == other.fold)
    if "numpy" in sys.modules and (found := _is_same_numpy(one, other)) is not None:
        return found
    if "pandas" in sys.modules and (found := _is_same_pandas(one, other)) is not None:
        return found
    return bool(one == other)


def _is_same_set(one: Any, other: Any) -> bool:
    """Whether two sets have the same members, each of the same type."""
    unmatched = list(other)
    for member in one:
        position = next(
            (position for position, each in enumerate(unmatched) if is_same(member, each)), None
        )
        if position is None:
            return False
        del unmatched[position]
    return not unmatched


def _is_same_numpy(one: Any, other: Any) -> bool | None:
    import numpy as np

    if not isinstance(one, np.ndarray | np.generic):
        return None
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.char in "gG":  # a long double has padding bytes
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(one.tobytes() == other.tobytes())


def _is_same_pandas(one: Any, other: Any) -> bool | None:
    import pandas as pd

    if one is pd.NaT or one is pd.NA:
        return one is other
    if isinstance(one, pd.Timestamp):
        alike = (one.unit, one.fold, str(one.tz)) == (other.unit, other.fold, str(other.tz))
        return bool(alike and type(one.tz) is type(other.tz) and one == other)
    if isinstance(one, pd.Timedelta):
        return bool(one.unit == other.unit and one == other)
    if isinstance(one, pd.Index):
        return _is_same_index(one, other)
    if isinstance(one, pd.Series):
        return _is_same_series(one, other)
    if isinstance(one, pd.DataFrame):
        return _is_same_frame(one, other)
    return None


def _is_same_index(one: Any, other: Any) -> bool:
    alike = type(one) is type(other) and is_same([*one.names], [*other.names])
    if not (alike and len(one) == len(other) and one.equals(other)):
        return False
    if one.nlevels > 1:
        levels = zip(one.levels, other.levels, strict=True)
        dtypes = all(a.dtype == b.dtype for a, b in levels)
        return dtypes and is_same(one.tolist(), other.tolist())
    freq = getattr(one, "freq", None) == getattr(other, "freq", None)
    return bool(freq and one.dtype == other.dtype and is_same(one.tolist(), other.tolist()))


def _is_same_series(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or not is_same(one.name, other.name) or one.attrs != other.attrs:
        return False
    if one.flags != other.flags or not _is_same_index(one.index, other.index):
        return False
    return is_same(one.tolist(), other.tolist())


def _is_same_frame(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.attrs != other.attrs or one.flags != other.flags:
        return False
    if not (_is_same_index(one.index, other.index) and _is_same_index(one.columns, other.columns)):
        return False
    return all(
        _is_same_series(one.iloc[:, position], other.iloc[:, position])
        for position in range(one.shape[1])
    )
