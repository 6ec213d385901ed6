"""Times are read in UTC, to the minute."""

from __future__ import annotations

import pytest

from accountant.display.times import day, each_period, moment, time_until
from accountant.times import from_iso

NOW = from_iso("2026-11-21T12:00:00.000Z")


def test_times_are_read_in_utc() -> None:
    assert moment("2026-02-03T04:05:06.007Z") == "2026-02-03 04:05 UTC"
    assert day("2026-02-03T04:05:06.007Z") == "2026-02-03"
    assert moment(None) == day(None) == ""


@pytest.mark.parametrize(
    ("iso", "said"),
    [
        ("2026-11-21T12:00:00.000Z", ""),
        ("2026-11-21T12:00:01.000Z", "in 1 minute"),
        ("2026-11-21T13:59:00.000Z", "in 119 minutes"),
        ("2026-11-21T17:00:00.001Z", "in 6 hours"),
        ("2026-12-21T12:00:00.000Z", "in 30 days"),
    ],
)
def test_the_time_until_a_moment_is_rounded_up(iso: str, said: str) -> None:
    assert time_until(iso, NOW) == said


def test_periods_are_shown_in_days() -> None:
    assert each_period("P1D") == "each day"
    assert each_period("P30D") == "every 30 days"
