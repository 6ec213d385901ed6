"""Dates and times of files, compared with the reference evaluation of the same rows."""

from __future__ import annotations

import tempfile
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from accountant.questions import Schema, check_schema
from accountant.questions.local_times import day_number
from accountant.questions.schema import DateColumn, NumberColumn, TimeColumn, UnitColumn
from accountant.questions.zone_rules import DAY_S, UTC, ZoneRules
from streams.sources.zone_files import find_zone
from tests.accountant.questions.schemas import SOURCE
from tests.nightly import rounds
from tests.streams.sources.source_files import (
    WRITERS,
    Columns,
    assert_equal_to_the_reference,
)

ZONES: Final = (
    # Summer times of an hour, of half and of two, below winter's, from midnight on, within
    # Ramadan; and a day that never was.
    *("Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Europe/Dublin"),
    *("America/Havana", "Africa/Casablanca", "Pacific/Apia", "America/St_Johns"),
    *("America/New_York", "Asia/Gaza", "America/Santiago", "Pacific/Chatham"),
)
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - what clocks show
RANGES: Final = {
    # Of each range, the parts of which it has at most 10,000.
    ("2026-01-01", "2026-12-31"): ("year", "quarter", "month", "week", "day", "weekday", "hour"),
    ("2011-12-25", "2012-01-05"): ("year", "quarter", "month", "week", "day", "weekday", "hour"),
    ("0001-01-01", "0001-02-03"): ("year", "quarter", "month", "week", "day", "weekday", "hour"),
    ("9998-12-27", "9999-12-31"): ("year", "quarter", "month", "week", "day", "weekday", "hour"),
    ("1890-06-30", "2040-02-29"): ("year", "quarter", "month", "week", "weekday", "hour"),
    ("0001-01-01", "9999-12-31"): ("year", "weekday", "hour"),
}
LEAST, MOST = day_number(date.min) * DAY_S, day_number(date.max) * DAY_S
OTHER_TEXTS: Final = (
    *("", "NaT", "2026-3-1", "2026-02-30", "0000-01-01", "20260301", "2026-03-01T", "2026-W09-7"),
    *("2026-03-01T24:00", "2026-03-01T12", "2026-03-01T12:60", "2026-03-01T12:00:61", "12:00"),
    *("2026-03-01T12:00+24:00", "2026-03-01T12:00z", " 2026-03-01", "2026-03-01 ", "2026-03-01Z"),
    *("10000-01-01", "-0001-01-01", "2026-03-01T12:00:00.", "2026-03-01\n", "\u0661026-03-01"),
)


@st.composite
def seconds(draw: st.DrawFn, schema: Schema, zone: ZoneRules) -> int:
    """Return seconds near what decides: ends of a range, changes of the clocks, ends of groups."""
    dates = [each for each in schema.columns if isinstance(each, DateColumn | TimeColumn)]
    first, last = (day_number(each) * DAY_S for each in draw(st.sampled_from(dates)).dates)
    changes = [at for at in zone.changes if first - DAY_S <= at <= last + DAY_S] or [first]
    at = draw(
        st.sampled_from(changes)
        | st.sampled_from([first, last, last + DAY_S])
        | st.integers(first - DAY_S, last + 2 * DAY_S)
    )
    moved = st.integers(-2, 2) | st.integers(-15 * 3600, 15 * 3600)
    midnight = at - at % DAY_S if draw(st.booleans()) else at
    return min(max(midnight + draw(moved), LEAST), MOST + DAY_S - 1)


@st.composite
def texts(draw: st.DrawFn, each: st.SearchStrategy[int]) -> str:
    if not draw(st.integers(0, 5)):
        return draw(st.sampled_from(OTHER_TEXTS))
    shown = (EPOCH + timedelta(seconds=draw(each))).isoformat(draw(st.sampled_from("T ")))
    if not draw(st.integers(0, 3)):
        return shown[:10]
    if not draw(st.integers(0, 3)):
        shown = f"{shown[:11]}{draw(st.sampled_from(['23:59:60', '12:30:60', '00:00:60']))}"
    part = draw(st.sampled_from(["", "", ".9", ",000001", ".999999999999"]))
    offsets = ["", "Z", "+00", "+14:00", "-1200", "-00:30", "+23:59", "-23:59", "+0545"]
    cut = 16 if not draw(st.integers(0, 3)) else 19
    return shown[:cut] + (part if cut == 19 else "") + draw(st.sampled_from(offsets))


@st.composite
def cells(draw: st.DrawFn, each: st.SearchStrategy[int], size: int) -> tuple[Any, list[object]]:
    units = ["s", "ms", "us", "ns"]
    type_ = draw(
        st.sampled_from([pa.string(), pa.date32()])
        | st.sampled_from([pa.timestamp(unit) for unit in units])
        | st.sampled_from([pa.timestamp(unit, "UTC") for unit in units])
    )
    if type_ == pa.string():
        return type_, draw(st.lists(st.none() | texts(each), min_size=size, max_size=size))
    part = st.sampled_from([0, 0, 1, 999_999]) if type_ in TYPES_WITH_PARTS else st.just(0)

    def moment(second: int, microsecond: int) -> object:
        if pa.types.is_timestamp(type_) and type_.unit == "ns":
            second = min(max(second, -9 * 10**9), 9 * 10**9)
        found = EPOCH + timedelta(seconds=second, microseconds=microsecond)
        return found.date() if type_ == pa.date32() else found

    cell = st.none() | st.builds(moment, each, part)
    return type_, draw(st.lists(cell, min_size=size, max_size=size))


TYPES_WITH_PARTS: Final = tuple(
    pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    def dates() -> dict[str, Any]:
        first, last = draw(st.sampled_from([*RANGES]))
        missing = draw(st.sampled_from([{}, {}, {"missing": first}, {"missing": last}]))
        return {"first": first, "last": last, **missing}

    return check_schema(
        Schema(
            source=SOURCE,
            columns=(
                DateColumn(name="d", **dates()),
                TimeColumn(name="t", **dates()),
                NumberColumn(name="x", lower="0", upper="9"),
            ),
            neighbours="add_remove",
            unit=draw(st.sampled_from([UNSET, UnitColumn(column="unit", rows=1)])),
            zone=draw(st.sampled_from([UNSET, *ZONES, *ZONES])),
        )
    )


@st.composite
def questions(draw: st.DrawFn, schema: Schema) -> str:
    text = draw(st.sampled_from(["count", "sum(x)"]))
    name = draw(st.sampled_from("dt"))
    column = schema.find(name, field="")
    assert isinstance(column, DateColumn | TimeColumn)
    parts = [p for p in RANGES[column.first, column.last] if name == "t" or p != "hour"]
    if draw(st.integers(0, 3)):
        text += f" by {draw(st.sampled_from(parts))}({name})"
    tested = draw(st.sampled_from("dt"))
    of_test = schema.find(tested, field="")
    assert isinstance(of_test, DateColumn | TimeColumn)
    near = {of_test.first, of_test.last, "2026-03-29", "2026-10-25", "2011-12-30"}
    literals = st.sampled_from(sorted(near)).map(lambda day: f"'{day}'")
    tests = [
        f"{tested} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(literals)}",
        f"{tested} in ({draw(literals)}, {draw(literals)})",
        f"not {tested} not in ({draw(literals)})",
    ]
    if of_test.missing is UNSET:
        tests.append(f"{tested} is {draw(st.sampled_from(['', 'not ']))}missing")
    return text + (f" where {draw(st.sampled_from(tests))}" if draw(st.booleans()) else "")


@settings(max_examples=rounds(25, 2_000), deadline=None)
@given(st.data())
def test_each_kind_of_file_has_the_dates_of_the_reference(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    zone = UTC if schema.zone is UNSET else find_zone(schema.zone)
    assert zone is not None
    size = data.draw(st.integers(1, 8))
    each = seconds(schema, zone)
    columns: Columns = {
        "d": data.draw(cells(each, size)),
        "t": data.draw(cells(each, size)),
        "x": (pa.int64(), [i % 10 for i in range(size)]),
        "unit": (pa.int64(), [i % 3 for i in range(size)]),
    }
    text = data.draw(questions(schema))
    kinds = [data.draw(st.sampled_from([*WRITERS]))]
    with tempfile.TemporaryDirectory() as path:
        assert_equal_to_the_reference(text, schema, columns, Path(path), kinds=kinds)
