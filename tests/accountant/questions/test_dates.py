"""Dates and times: what cells are read as, their filters and their groups."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pandas as pd
import pytest
from msgspec import UNSET

from accountant.errors import RequestInvalid
from accountant.questions import evaluate, parse_question, question_text
from accountant.questions.calendar_groups import PARTS, CalendarGroups, CalendarPart
from accountant.questions.group_functions import CalendarFunction, parse_group
from accountant.questions.local_times import LocalTime
from accountant.questions.schema import DateColumn, TimeColumn
from accountant.questions.schema_values import read_cell
from accountant.questions.zone_rules import UTC as UTC_RULES
from accountant.questions.zone_rules import ZoneRules
from streams.sources.zone_files import find_zone
from tests.accountant.questions.schemas import visits

BERLIN = find_zone("Europe/Berlin")
assert BERLIN is not None
EVER = TimeColumn(name="t", first="0001-01-01", last="9999-12-31")


def text_of(cell: object, zone: ZoneRules = BERLIN) -> str | None:
    value = read_cell(EVER, cell, zone)
    return None if value is None else str(value)


def test_a_cell_is_what_the_clocks_of_the_zone_show() -> None:
    plus_two = timezone(timedelta(hours=2))
    for cell, expected in {
        date(2026, 3, 1): "2026-03-01T00:00:00",
        datetime(2026, 3, 1, 12, 30, 5, 999_999): "2026-03-01T12:30:05",  # noqa: DTZ001
        datetime(2026, 3, 1, 12, tzinfo=UTC): "2026-03-01T13:00:00",
        datetime(2026, 7, 1, 12, tzinfo=UTC): "2026-07-01T14:00:00",
        datetime(2026, 7, 1, 12, tzinfo=plus_two): "2026-07-01T12:00:00",
        pd.Timestamp("2026-07-01 12:00:00.000000001"): "2026-07-01T12:00:00",
        pd.Timestamp("2026-07-01 12:00", tz="Asia/Tokyo"): "2026-07-01T05:00:00",
        "2026-03-01": "2026-03-01T00:00:00",
        "2026-03-01 12:30": "2026-03-01T12:30:00",
        "2026-03-01T12:30:05,9": "2026-03-01T12:30:05",
        "2026-03-01T12:30:05.9Z": "2026-03-01T13:30:05",
        "2026-03-01T12:30-0330": "2026-03-01T17:00:00",
        "2026-12-31T23:59:60": "2026-12-31T23:59:59",
        "2016-12-31T23:59:60Z": "2017-01-01T00:59:59",
        "2017-01-01T00:59:60+01": "2017-01-01T00:59:59",
    }.items():
        assert text_of(cell) == expected, cell


def test_gaps_and_hours_shown_twice_have_one_value_each() -> None:
    # No clock of Berlin shows 02:30 on that day: a cell that says so keeps it.
    assert text_of("2026-03-29T02:30") == "2026-03-29T02:30:00"
    assert text_of("2026-03-29T00:59:59Z") == "2026-03-29T01:59:59"
    assert text_of("2026-03-29T01:00:00Z") == "2026-03-29T03:00:00"
    # Clocks show 02:30 twice: both instants, and the cell, are one value.
    again = ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30"]
    assert {text_of(each) for each in again} == {"2026-10-25T02:30:00"}


def test_what_a_zone_shifts_beyond_the_years_is_missing() -> None:
    tokyo, new_york = find_zone("Asia/Tokyo"), find_zone("America/New_York")
    assert text_of("9999-12-31T23:30Z", tokyo) is None
    assert text_of("9999-12-31T23:30Z", new_york) == "9999-12-31T18:30:00"
    assert text_of("0001-01-01T00:30Z", new_york) is None
    assert text_of("0001-01-01T00:30Z", tokyo) == "0001-01-01T09:48:59"  # by the sun, until 1888
    assert text_of(datetime.max.replace(tzinfo=timezone(-timedelta(hours=9))), UTC_RULES) is None
    assert text_of("0001-01-01T00:00+14:00", UTC_RULES) is None


def test_everything_else_is_missing() -> None:
    cells = [None, pd.NaT, True, 20260301, 1.5, b"2026-03-01", "", "NaT", "20260301", "2026-3-1"]
    cells += ["2026-02-29", "0000-01-01", "10000-01-01", "2026-03-01T24:00", "2026-03-01T12:00:61"]
    cells += ["2026-03-01T12", "2026-03-01T12:00+24:00", "2026-03-01Z", " 2026-03-01", "\u0662026"]
    assert [each for each in cells if text_of(each) is not None] == []
    column = DateColumn(name="d", first="2026-01-01", last="2026-12-31", missing="2026-06-01")
    assert read_cell(column, "2025-12-31") == date(2026, 6, 1)
    assert read_cell(column, "2027-01-01T00:00+00:01") == date(2026, 12, 31)
    time = TimeColumn(name="t", first="2026-01-01", last="2026-12-31", missing="2026-06-01")
    assert str(read_cell(time, None)) == "2026-06-01T00:00:00"


def test_a_filter_compares_dates_and_a_times_date() -> None:
    rows = [{"unit": i, "t": f"2026-01-31T{i:02}:30", "d": "2026-01-31"} for i in range(24)]
    rows += [{"unit": "later", "t": "2026-02-01T00:00:00"}, {"unit": "never"}]
    for text, count in {
        "t = '2026-01-31'": 24,
        "t <= '2026-01-31' and d >= '2026-01-31'": 24,
        "t > '2026-01-31'": 1,
        "t < '2026-02-01'": 24,
        "t != '2026-01-31'": 1,
        "not t = '2026-01-31'": 2,
        "t in ('2026-02-01', '2000-01-01')": 1,
        "t is missing": 1,
        "d is not missing": 24,
    }.items():
        checked = parse_question(f"count where {text}", visits())
        assert evaluate(checked, rows, key=b"") == ((count,),), text


def test_each_group_of_the_range_is_answered() -> None:
    column = TimeColumn(name="t", first="2025-12-28", last="2026-01-05")
    expected: dict[CalendarPart, tuple[str, ...]] = {
        "year": ("2025", "2026"),
        "quarter": ("2025-Q4", "2026-Q1"),
        "month": ("2025-12", "2026-01"),
        "week": ("2025-W52", "2026-W01", "2026-W02"),
        "day": (*(f"2025-12-{i}" for i in range(28, 32)), *(f"2026-01-0{i}" for i in range(1, 6))),
        "weekday": (
            *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        ),
        "hour": tuple(f"{i:02}" for i in range(24)),
    }
    for part in PARTS:
        groups = CalendarGroups(column, part)
        assert groups.values == expected[part]
        assert groups.size == len(groups.values)
    first, last = (LocalTime(int(datetime(*day, tzinfo=UTC).timestamp())) for day in (
        (2025, 12, 28, 23, 59, 59), (2026, 1, 5))
    )  # fmt: skip
    places = {part: CalendarGroups(column, part).place for part in PARTS}
    assert [places[part](first) for part in PARTS] == [0, 0, 0, 0, 0, 6, 23]
    assert [places[part](last) for part in PARTS] == [1, 1, 1, 2, 8, 0, 0]


def test_every_day_of_all_years_has_its_groups() -> None:
    column = DateColumn(name="d", first="0001-01-01", last="9999-12-31")
    for part in ("year", "quarter", "month", "week", "day"):
        groups = CalendarGroups(column, part)
        assert groups.place(date(1, 1, 1)) == 0
        assert groups.place(date(9999, 12, 31)) == groups.size - 1
    assert CalendarGroups(column, "week").values[-1] == "9999-W52"


def test_a_question_by_parts_has_one_text() -> None:
    schema = visits()
    for text in ("count by month(t), c", "count where t >= '2026-01-01' by weekday(t), hour(t)"):
        checked = parse_question(text, schema)
        assert question_text(checked.question) == text
        assert [each.heading for each in checked.groups] == text.split(" by ")[1].split(", ")
    assert parse_question("count by week(d)", schema).cells == 18
    assert parse_group("month(visited)") == CalendarFunction(column="visited", part="month")
    for name in ("visited", "month(visited", "month(a) b", "of(month)", "year of birth"):
        assert parse_group(name) == name


def test_refusals_say_what_to_write() -> None:
    for text, words in {
        "count by d": "must be a category or boolean column, got d, a date column: write month(d)",
        "count by month(c)": "by[0].column must be a date or time column",
        "count by hour(d)": "by[0].column must be a time column",
        "count by month(t), month(t)": "by[1] must be a column that is not named before",
        "count by moth(t)": "did you mean month?",
        "count by month(e)": "must name a column of the schema",
        "count where t > 5": "a quoted date for t, such as '2025-11-01' at character 17, got 5",
        "count where t > '2026-02-30'": "a quoted date for t",
        "count where t > '2026-01-01T12:00'": "a quoted date for t",
        "mean(t)": "ask count by month(t), count by hour(t) or count where t >= '2025-12-30'",
        "count by day(d), day(t)": "must make at most 10000 groups",
    }.items():
        with pytest.raises(RequestInvalid) as refused:
            parse_question(text, visits())
        assert words in str(refused.value), text


def test_the_schema_declares_dates_and_the_zone() -> None:
    for fields, words in (
        ({"first": "2026-1-1"}, "first must be a date such as 2026-03-01"),
        ({"last": "2026-02-30"}, "last must be a date"),
        ({"last": "2024-01-01"}, "last must not be before first"),
        ({"missing": "2024-01-01"}, "missing must be from first to last"),
    ):
        column = {"name": "d", "first": "2025-01-01", "last": "2026-01-01"} | fields
        with pytest.raises(RequestInvalid) as refused:
            visits(columns=(DateColumn(**column),))
        assert words in str(refused.value)
    for zone in ("../etc/localtime", "Europe/", "", "x" * 64, "Europe/Berlin\n", "/Europe/Berlin"):
        with pytest.raises(RequestInvalid, match="zone must be a name such as Europe/Berlin"):
            visits(zone=zone)


def test_rules_of_another_zone_are_refused() -> None:
    checked = parse_question("count", visits(zone="Europe/Berlin"))
    with pytest.raises(ValueError, match="the schema's zone is Europe/Berlin, not UTC"):
        evaluate(checked, [], key=b"")
    assert evaluate(checked, [], key=b"", zone=BERLIN) == ((0,),)
    assert visits(zone=UNSET).zone is UNSET
