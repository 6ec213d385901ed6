"""Whether a stored answer is the answer: equal, of the same type and shape, all the way down."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import Any


def same(one: Any, other: Any) -> bool:
    """Tell whether two answers are equal and alike; a NaN is equal to a NaN."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is float:
        return repr(one) == repr(other)  # which tells 0 from -0, too
    if kind is complex:
        return same(one.real, other.real) and same(one.imag, other.imag)
    if kind is Decimal:
        return bool(one.as_tuple() == other.as_tuple())
    if kind in {list, tuple}:
        return len(one) == len(other) and all(map(same, one, other))
    if kind in {set, frozenset}:
        return _same_members(one, other)
    if kind is dict:
        return same([*one], [*other]) and same([*one.values()], [*other.values()])
    if kind in {dt.datetime, dt.time}:
        zones = one.tzinfo == other.tzinfo and one.tzname() == other.tzname()
        return bool(zones and one == other and one.fold == other.fold)
    if "numpy" in sys.modules and (found := _same_in_numpy(one, other)) is not None:
        return found
    if "pandas" in sys.modules and (found := _same_in_pandas(one, other)) is not None:
        return found
    return bool(one == other)


def _same_members(one: Any, other: Any) -> bool:
    """Tell whether two sets have the same members, each of the same type."""
    left = list(other)
    for member in one:
        place = next((place for place, each in enumerate(left) if same(member, each)), None)
        if place is None:
            return False
        del left[place]
    return not left


def _same_in_numpy(one: Any, other: Any) -> bool | None:
    import numpy as np

    if not isinstance(one, np.ndarray | np.generic):
        return None
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.char in "gG":  # of a long double some bytes mean nothing
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(one.tobytes() == other.tobytes())


def _same_in_pandas(one: Any, other: Any) -> bool | None:
    import pandas as pd

    if one is pd.NaT or one is pd.NA:
        return one is other
    if isinstance(one, pd.Timestamp):
        alike = (one.unit, one.fold, str(one.tz)) == (other.unit, other.fold, str(other.tz))
        return bool(alike and type(one.tz) is type(other.tz) and one == other)
    if isinstance(one, pd.Timedelta):
        return bool(one.unit == other.unit and one == other)
    if isinstance(one, pd.Index):
        return _same_index(one, other)
    if isinstance(one, pd.Series):
        return _same_series(one, other)
    if isinstance(one, pd.DataFrame):
        return _same_frame(one, other)
    return None


def _same_index(one: Any, other: Any) -> bool:
    alike = type(one) is type(other) and same([*one.names], [*other.names])
    if not (alike and len(one) == len(other) and one.equals(other)):
        return False
    if one.nlevels > 1:
        levels = zip(one.levels, other.levels, strict=True)
        dtypes = all(left.dtype == right.dtype for left, right in levels)
        return dtypes and same(one.tolist(), other.tolist())
    freq = getattr(one, "freq", None) == getattr(other, "freq", None)
    return bool(freq and one.dtype == other.dtype and same(one.tolist(), other.tolist()))


def _same_series(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or not same(one.name, other.name) or one.attrs != other.attrs:
        return False
    if one.flags != other.flags or not _same_index(one.index, other.index):
        return False
    return same(one.tolist(), other.tolist())


def _same_frame(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.attrs != other.attrs or one.flags != other.flags:
        return False
    if not (_same_index(one.index, other.index) and _same_index(one.columns, other.columns)):
        return False
    return all(
        _same_series(one.iloc[:, place], other.iloc[:, place]) for place in range(one.shape[1])
    )
