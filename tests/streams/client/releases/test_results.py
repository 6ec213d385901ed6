"""A stored result is decoded unchanged, or it is not stored."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import sys
import typing
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_matrix

from accountant.errors import RequestInvalid
from streams.client import (
    Accountant,
    AccountantWarning,
    AsyncAccountant,
    ResultMissing,
    ResultStore,
)
from streams.client.releases.codec import decode_result, encode_result
from streams.client.releases.equality import is_same
from tests.every_case import check_each

CLAIM = "pure:0.01"
BERLIN = ZoneInfo("Europe/Berlin")
PAIR = np.dtype([("count", "<i4"), ("mean", "<f8"), ("name", "<U3")])
STORED = [
    None,
    True,
    7,
    -(2**64),
    10**5000,
    -0.1,
    -0.0,
    math.nan,
    -math.inf,
    complex(math.nan, -0.0),
    "a\ud800b",
    b"\0\xff",
    bytearray(b"ab"),
    Decimal("1.10"),
    Decimal("-sNaN12"),
    Fraction(10**5000, 3),
    dt.date(2026, 11, 25),
    dt.time(1, 2, 3, 4, tzinfo=dt.UTC),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    dt.datetime(2026, 10, 25, tzinfo=dt.timezone(dt.timedelta(hours=-3))),
    dt.timedelta(days=-1, microseconds=7),
    [1, (2, [3.5]), {"a": (None,), "$": "tuple", "is": 1}],
    {0: 1, None: 2, True: 3, 2.5: 4, (1, ("a", b"b")): 5, frozenset({1}): 6, math.nan: 7},
    {"b": 1, "a": 2},
    {1, "a", (2, None)},
    frozenset({1.5, "x"}),
    set(),
    np.float64(0.1),
    np.float32("nan"),
    np.int8(-3),
    np.bool_(True),
    np.complex64(1 - 0j),
    np.longdouble("1.1"),
    np.str_("abc"),
    np.bytes_(b"ab"),
    np.datetime64("2026-11-25T01", "h"),
    np.datetime64("NaT"),
    np.timedelta64(5, "s"),
    np.array([(1, 2.5, "abc")], dtype=PAIR)[0],
    np.matrix([[18, 22, 26]]),
    np.array(3),
    np.array([]),
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.ones((2, 3), dtype=">i2")),
    np.array([[True, False]]),
    np.array(["a", "bc"]),
    np.array(["2026-11-25"], dtype="datetime64[D]"),
    np.array([(1, math.nan, "a"), (2, 3.5, "bcd")], dtype=PAIR),
    pd.Series([1, 2]),
    pd.Series([1.5, None], index=["a", "b"], name="mean"),
    pd.Series([1, None], dtype="Int64"),
    pd.Series(["a", None, "b"]),
    pd.Series(["a", "b"], dtype="category"),
    pd.Series(["a", "b", "a"]).value_counts(),
    pd.Series([1.5], index=pd.date_range("2026-01-01", periods=1, tz="Europe/Berlin")),
    pd.Series([Decimal("1.1")], name=("a", 1)),
    pd.Series([1, "a", None, (2, 3)], dtype=object),
    pd.Series([], dtype=float),
    pd.DataFrame(),
    pd.DataFrame({"count": [1, 2], "name": ["x", "y"]}),
    pd.DataFrame({0: [1], 1: [2.5]}),
    pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
    pd.DataFrame({"mean": [1.5, 2.5], "by": ["x", "y"]}).groupby("by").mean(),
    pd.DataFrame(
        {"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["x", "y"])
    ),
    pd.Timestamp("2026-11-25T01:02:03.123456789"),
    pd.Timestamp("2026-11-25", tz="Europe/Berlin"),
    pd.Timedelta("1s"),
    pd.NaT,
    pd.NA,
    [{"table": pd.DataFrame({"a": [1]}), pd.Timestamp("2026-01-01"): np.matrix([1])}],
]


class Size(IntEnum):
    """An integer that is more than one."""

    SMALL = 1


class Number(int):
    """An integer of a program's own."""


Named = namedtuple("Named", "count")
REFUSED = [
    object(),
    [[object()]],
    Size.SMALL,
    Number(3),
    Named(1),
    OrderedDict(a=1),
    Counter("ab"),
    range(3),
    np.array([object()]),
    np.array([(1, object())], dtype=[("a", "i4"), ("b", "O")]),
    np.ma.masked_array([1], [True]),
    np.rec.array([(1,)], dtype=[("a", "i4")]),
    csr_matrix([[18, 22, 26]]),
    pd.Index([1, 2]),
    pd.Series([object()]),
    pd.DataFrame({"a": [object()]}),
    dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "of mine")),
]


def label(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


@pytest.fixture(params=["with pyarrow", "without pyarrow"])
def _arrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.fixture(autouse=True)
def _never_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickled")

    for name in ("dumps", "loads", "dump", "load"):
        monkeypatch.setattr(pickle, name, refuse)


@pytest.mark.usefixtures("_arrow")
def test_a_result_is_decoded_with_its_types() -> None:
    def check_case(answer: Any) -> None:
        data = encode_result(answer)
        json.loads(data)
        back = decode_result(data)
        assert is_same(answer, back)
        assert type(back) is type(answer)
        if isinstance(answer, np.ndarray | np.generic):
            assert (back.dtype, back.shape) == (answer.dtype, answer.shape)
        if isinstance(answer, pd.DataFrame):
            pd.testing.assert_frame_equal(back, answer, check_exact=True, check_column_type="exact")
        if isinstance(answer, pd.Series):
            pd.testing.assert_series_equal(back, answer, check_exact=True, check_index_type="exact")

    check_each(check_case, STORED)


def test_a_value_that_would_decode_differently_is_refused() -> None:
    def check_case(answer: Any) -> None:
        with pytest.raises(TypeError, match="cannot be stored"):
            encode_result(answer)
        with pytest.raises(TypeError):
            encode_result({"of": [(answer,)]})

    check_each(check_case, REFUSED)


def test_a_self_referencing_value_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nest"):
        encode_result(endless)


def test_equality_distinguishes_types_signs_and_shapes() -> None:
    alike = [1, 1.0, True, np.int64(1), np.array([1]), np.array([[1]]), np.matrix([1]), "1", [1]]
    alike += [(1,), {1}, {1.0}, {True}, {1: 1}, {1.0: 1}, pd.Series([1]), pd.Series([1], name="a")]
    alike += [0.0, -0.0, Decimal("1.0"), Decimal("1.00"), pd.Series([1], index=[1])]
    for position, one in enumerate(alike):
        for other_place, other in enumerate(alike):
            assert is_same(one, other) is (position == other_place), (one, other)


hashable = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers().map(lambda value: value**40),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([dt.UTC, BERLIN])),
    st.timedeltas(),
)
keys = st.one_of(hashable, st.tuples(hashable, hashable))
scalars = st.one_of(hashable, st.decimals())
arrays = hnp.arrays(
    st.one_of(
        hnp.integer_dtypes(),
        hnp.floating_dtypes(sizes=(16, 32, 64)),
        hnp.complex_number_dtypes(sizes=(64, 128)),
        hnp.boolean_dtypes(),
        hnp.unicode_string_dtypes(max_len=4),
        hnp.datetime64_dtypes(),
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
nested = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
    ),
    max_leaves=12,
)


@given(nested)
def test_nested_results_are_decoded(answer: Any) -> None:
    assert is_same(decode_result(encode_result(answer)), answer)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Accountant]:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "answers.db"))
    with Accountant(f"sqlite:///{tmp_path / 'ledger.db'}", analyst="ana") as client:
        client.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
        yield client


def spent(ledger: Accountant) -> str:
    view = ledger.dataset("census")
    assert view is not None
    return str(view.totals["epsilon"])


def test_a_matrix_of_a_sparse_sum_is_returned_whole_and_again(ledger: Accountant) -> None:
    mine = ledger.new_request_id()
    for _ in range(2):
        found = ledger.release(
            "census", CLAIM, lambda: csr_matrix([[18, 22, 26]]).sum(axis=0), request_id=mine
        )
        assert type(found) is np.matrix
        assert found.tolist() == [[18, 22, 26]]
    assert spent(ledger) == "0.01"


def test_a_result_that_cannot_be_stored_is_returned_once_with_a_warning(ledger: Accountant) -> None:
    mine, runs = ledger.new_request_id(), [object(), object()]
    unmatched = list(runs)
    with pytest.warns(AccountantWarning, match=f"{mine} is not stored.*never runs again") as warned:
        assert ledger.release("census", CLAIM, unmatched.pop, request_id=mine) is runs[1]
    assert warned[0].filename == __file__
    for _ in range(2):
        with pytest.raises(ResultMissing, match="was returned then but could not be stored"):
            ledger.release("census", CLAIM, unmatched.pop, request_id=mine)
    assert len(unmatched) == 1
    assert spent(ledger) == "0.01"
    assert ResultStore().open_requests() == []


async def test_the_async_client_does_the_same(ledger: Accountant) -> None:
    async with AsyncAccountant(ledger.url, analyst="ana") as awaited:
        mine = ledger.new_request_id()
        with pytest.warns(AccountantWarning, match="is not stored"):
            await awaited.release("census", CLAIM, lambda: Size.SMALL, request_id=mine)
        with pytest.raises(ResultMissing):
            await awaited.release("census", CLAIM, lambda: Size.SMALL, request_id=mine)


@pytest.mark.filterwarnings("error")
def test_a_result_that_a_warning_withheld_may_be_drawn_again(ledger: Accountant) -> None:
    mine = ledger.new_request_id()
    with pytest.raises(AccountantWarning):
        ledger.release("census", CLAIM, object, request_id=mine)
    assert ledger.release("census", CLAIM, lambda: 1, request_id=mine) == 1
    assert spent(ledger) == "0.01"


def _size() -> Size:
    return Size.SMALL


def _perhaps() -> Number | Size:
    return Number(1)


class Drawn:
    """A program's own kind of function."""

    def __call__(self) -> Counter[str]:
        return Counter("ab")


def _range() -> typing.Annotated[range, "of counts"]:
    return range(3)


@pytest.mark.parametrize("run", [_size, _perhaps, Drawn(), _range])
def test_a_declared_type_that_no_store_takes_is_refused_uncharged(
    ledger: Accountant, run: Any
) -> None:
    with pytest.raises(RequestInvalid, match="run must return a type that can be stored"):
        ledger.release("census", CLAIM, run)
    assert spent(ledger) == "0"


def test_a_declared_type_that_may_be_stored_is_run(ledger: Accountant) -> None:
    def of_list() -> list[int]:
        return [1]

    def of_array() -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([1])

    def of_either() -> Size | float:
        return 1.5

    def of_real() -> typing.SupportsFloat:
        return 1.5

    def of_unknown() -> Nothing:  # type: ignore[name-defined]  # noqa: F821
        return 1

    for run in (of_list, of_array, of_either, of_real, of_unknown, dict):
        ledger.release("census", CLAIM, run)
    assert spent(ledger) == "0.06"
