"""When it runs out, by hand: windows, whole days, ranges, and where there is no time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.amounts import INFINITE, UNIT, format_units, parse_units
from accountant.times import from_iso
from accountant.views.why import Forecast, RemainingAmount, SpenderKey
from accountant.views.why.forecast import (
    SLOWED,
    TOO_YOUNG,
    WINDOWS,
    PeriodAllowance,
    day_of,
    day_text,
    forecasts,
)

NOW = from_iso("2026-11-24T12:00:00.000Z")
LONG_AGO = from_iso("2020-01-01T00:00:00.000Z")
ALL = SpenderKey("all")


def predicted(
    by_day: dict[str, str], left: str | None = "1", *, begin: int = LONG_AGO, now: int = NOW
) -> dict[int, Forecast]:
    units = {day: parse_units(amount) for day, amount in by_day.items()}
    known = RemainingAmount(None if left is None else parse_units(left))
    found = forecasts(ALL, units, known, begin=begin, now=now)
    return {each.days: each for each in found}


def test_a_forecast_window_is_its_whole_days_plus_today_so_far() -> None:
    found = predicted({"2026-11-24": "0.1", "2026-11-23": "0.2", "2026-11-22": "0.4"})
    assert [found[days].spent for days in WINDOWS] == ["0.3", "0.7", "0.7"]
    # Of a day and a half, seven and a half, thirty and a half.
    assert found[1].per_day == pytest.approx(0.2)
    assert found[7].per_day == pytest.approx(0.7 / 7.5)
    assert found[30].per_day == pytest.approx(0.7 / 30.5)
    assert found[1].runs_out_at == "2026-11-29T12:00:00.000Z"


def test_a_forecast_window_includes_its_first_day_and_not_the_day_before() -> None:
    found = predicted(
        {"2026-11-17": "0.1", "2026-11-16": "5", "2026-10-25": "1", "2026-10-24": "9"}
    )
    assert [found[days].spent for days in WINDOWS] == ["0", "0.1", "6.1"]


def test_days_to_come_are_in_no_window() -> None:
    found = predicted({"2026-11-25": "0.5", "2036-01-01": "0.5"})
    assert {each.spent for each in found.values()} == {"0"}


def test_a_younger_dataset_is_counted_from_its_opening() -> None:
    opened = from_iso("2026-11-23T12:00:00.000Z")
    found = predicted({"2026-11-23": "0.25", "2026-11-24": "0.25"}, begin=opened)
    assert [each.per_day for each in found.values()] == pytest.approx([0.5, 0.5, 0.5])
    assert {each.earliest for each in found.values()} == {None}  # no whole day


def test_the_first_minutes_count_as_an_hour() -> None:
    found = predicted({"2026-11-24": "0.01"}, begin=NOW - 60_000)
    assert found[1].per_day == pytest.approx(0.24)
    assert predicted({"2026-11-24": "0.01"}, begin=NOW)[30].per_day == pytest.approx(0.24)


def test_the_range_is_two_standard_errors_of_the_daily_mean() -> None:
    # 0.1 on each second of the seven whole days, nothing today: at midnight they are all there is.
    midnight = from_iso("2026-11-24T00:00:00.000Z")
    days = {f"2026-11-{day}": "0.1" for day in (17, 19, 21, 23)}
    found = predicted(days, "1", now=midnight)[7]
    mean = 0.4 / 7
    deviation = math.sqrt((4 * (0.1 - mean) ** 2 + 3 * mean**2) / 6)
    spread = 2 * deviation / math.sqrt(7)
    expected = [1 / (mean + each) for each in (0, spread, -spread)]
    times = [found.runs_out_at, found.earliest, found.latest]
    found_days = [(from_iso(str(at)) - midnight) / 86_400_000 for at in times]
    assert found_days == pytest.approx(expected, abs=1e-6)


def test_an_even_pace_has_no_spread() -> None:
    midnight = from_iso("2026-11-24T00:00:00.000Z")
    days = {day_text(day_of(midnight) - back): "0.125" for back in range(1, 8)}
    found = predicted(days, "1", now=midnight)[7]
    assert found.runs_out_at == found.earliest == found.latest == "2026-12-02T00:00:00.000Z"


def test_a_forecast_from_a_single_day_of_use_has_no_latest_date() -> None:
    found = predicted({"2026-11-20": "0.7"})[7]
    assert found.runs_out_at is not None
    assert found.earliest is not None
    assert found.earliest < found.runs_out_at
    assert found.latest is None


def test_a_forecast_from_one_whole_day_has_no_range() -> None:
    found = predicted({"2026-11-23": "0.1", "2026-11-24": "0.1"})
    assert (found[1].earliest, found[1].latest) == (None, None)
    assert found[1].runs_out_at is not None


def test_a_budget_without_use_has_no_date_at_which_it_runs_out() -> None:
    for each in predicted({}).values():
        assert (each.spent, each.per_day) == ("0", 0.0)
        assert (each.runs_out_at, each.earliest, each.latest) == (None, None, None)


def test_an_exhausted_budget_runs_out_now() -> None:
    found = predicted({"2026-11-20": "0.7"}, "0")
    assert {each.runs_out_at for each in found.values()} == {"2026-11-24T12:00:00.000Z"}
    assert {each.earliest for each in found.values()} == {None}


def test_a_hundred_years_are_for_ever() -> None:
    midnight = from_iso("2026-11-24T00:00:00.000Z")
    days = {day_text(day_of(midnight) - back): "1" for back in range(1, 8)}
    assert predicted(days, "36525", now=midnight)[7].runs_out_at is not None
    assert predicted(days, "36526", now=midnight)[7].runs_out_at is None


def test_without_a_known_rest_there_is_no_time_but_a_rate() -> None:
    found = predicted({"2026-11-23": "0.15"}, None)[1]
    assert (found.left, found.runs_out_at) == (None, None)
    assert found.per_day == pytest.approx(0.1)


def test_an_infinite_use_has_no_daily_rate() -> None:
    (found, *_) = forecasts(
        ALL, {"2026-11-23": INFINITE}, RemainingAmount(UNIT), begin=LONG_AGO, now=NOW
    )
    assert (found.spent, found.per_day, found.runs_out_at) == ("inf", 0.0, None)


@given(
    st.dictionaries(st.integers(-2, 40), st.integers(0, 10**50)),
    st.integers(0, 10**50),
    st.integers(0, 86_399_999),
    st.integers(0, 60 * 86_400_000),
)
def test_sums_are_exact_and_times_in_order(
    spent: dict[int, int], left: int, within: int, age: int
) -> None:
    now = NOW - NOW % 86_400_000 + within
    by_day = {day_text(day_of(now) - back): units for back, units in spent.items()}
    for each in forecasts(ALL, by_day, RemainingAmount(left), begin=now - age, now=now):
        first = max(day_of(now) - each.days, day_of(now - age))
        known = range(day_of(now) - day_of(now), day_of(now) - first + 1)
        assert each.spent == format_units(sum(spent.get(back, 0) for back in known))
        times = [each.earliest, each.runs_out_at, each.latest]
        reported = [at for at in times if at is not None]
        assert reported == sorted(reported)
        assert all(from_iso(at) >= now for at in reported)
        if each.latest is not None:
            assert None not in times


def test_less_than_a_day_of_history_gives_no_time_but_the_reason() -> None:
    for minutes, known in ((3, False), (24 * 60 - 1, False), (24 * 60, True)):
        found = predicted({"2026-11-24": "0.01"}, begin=NOW - minutes * 60_000)[7]
        assert (found.runs_out_at is not None) is known
        assert (found.note == TOO_YOUNG) is not known
    # What is used up has run out, however young the dataset is.
    assert predicted({"2026-11-24": "1"}, "0", begin=NOW - 60_000)[1].runs_out_at is not None


@pytest.mark.parametrize(
    ("left", "budget", "hours", "days", "ends"),
    [
        # 0.1 a day allowed of 0.5 a day asked: 0.05 in the rest of today, then nine more days.
        ("0.05", "0.1", 12, 1, 12 / 24 + 9 + 0.1),
        # Nothing is left of this week: 0.4 a week from the next one on.
        ("0", "0.4", 48, 7, 2 + 2 * 7 + 0.4),
        # A limit above the rate changes nothing.
        ("4", "5", 48, 7, 2),
    ],
)
def test_a_period_limit_slows_the_spending_down(
    left: str, budget: str, hours: int, days: int, ends: float
) -> None:
    midnight = from_iso("2026-11-24T00:00:00.000Z")
    by_day = {day_text(day_of(midnight) - back): parse_units("0.5") for back in range(1, 8)}
    until = midnight + hours * 3_600_000
    period = PeriodAllowance(parse_units(left), parse_units(budget), until, days)
    known = RemainingAmount(UNIT, None, (period,))
    found = forecasts(ALL, by_day, known, begin=LONG_AGO, now=midnight)[1]
    assert found.runs_out_at is not None
    expected = (from_iso(found.runs_out_at) - midnight) / 86_400_000
    # 0.95 after today are nine whole days and 0.05, of which each takes a fifth of a day.
    assert expected == pytest.approx(ends, abs=1e-6)
    assert (found.note == SLOWED) is (budget != "5")
