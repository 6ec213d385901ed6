"""The line over time is what the table beside it says."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from accountant.display.reasons import NO_ROOM, REASONS
from accountant.views.overview import UsageSum
from accountant.views.why import Forecast, Why
from accountant.views.why.report import RefusalsByReason
from streams.pages.dataset.spending import HEIGHT, WIDTH, forecast_notes, forecast_rows, spending
from streams.pages.dataset.usage import by_key, refusals
from tests.streams.pages.dataset.view_examples import dataset


def row(key: str, spent: str, granted: int = 1, refused: int = 0) -> UsageSum:
    return UsageSum(key=key, granted=granted, refused=refused, spent=spent)


def test_the_chart_has_a_step_for_each_day_with_spending() -> None:
    days = [row("2026-11-03", "0.25"), row("2026-11-10", "0.5", 2, 1)]
    result = spending(dataset(), days, "2026-11-10")
    ends = [tuple(map(float, point.split(","))) for point in result.line.split()]
    assert ends[0] == (0, HEIGHT)
    assert ends[-1] == (WIDTH, HEIGHT * 0.25)
    assert (WIDTH * 0.3, HEIGHT * 0.75) in ends, "by the end of the third of ten days"
    assert [each.total for each in result.rows] == ["ε 0.75", "ε 0.25"]
    assert result.rows[0].percent == "75 %"
    assert result.title == "Spent of the budget, 2026-11-01 to 2026-11-10"
    assert "75 % of the budget by the end of 2026-11-10" in result.about


def test_without_requests_the_chart_is_a_line_along_the_bottom() -> None:
    result = spending(dataset(), [], "2026-11-01")
    assert result.line == f"0.0,{HEIGHT:.1f} {WIDTH:.1f},{HEIGHT:.1f}"
    assert result.about == "No requests yet."
    assert len(result.marks) == 1


def test_the_line_of_even_spending_ends_at_the_horizon() -> None:
    view = dataset(horizon_ends_at="2026-11-21T09:30:00.000Z")
    result = spending(view, [], "2026-11-10")
    assert result.even == f"0.0,{HEIGHT:.1f} {WIDTH:.1f},{HEIGHT / 2:.1f}"
    beyond = spending(view, [], "2026-12-31")
    assert beyond.even.split()[-1].endswith(",0.0"), "the whole budget at the horizon, no further"


def test_days_outside_the_period_stay_within_the_chart() -> None:
    result = spending(dataset(), [row("2026-10-30", "0.5"), row("2026-12-01", "9")], "2026-11-10")
    for point in result.line.split():
        x, y = map(float, point.split(","))
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


def test_the_spending_table_has_the_latest_60_days() -> None:
    days = [row(f"2026-{month:02}-{day:02}", "0.001") for month in (9, 10) for day in range(1, 31)]
    result = spending(
        dataset(opened_at="2026-09-01T00:00:00.000Z"), [*days, row("2026-11-01", "0")], "2026-11-21"
    )
    assert len(result.rows) == 60
    assert result.left_out == 1


def test_usage_rows_are_sorted_by_use_and_end_with_a_sum_of_the_rest() -> None:
    rows = [row(f"p{number:02}", f"0.{number:03}", 1, 2) for number in range(1, 26)]
    result = by_key(dataset(), [*rows, row("", "0.9")], unnamed="(none given)")
    assert [each.key for each in result.rows[:2]] == ["(none given)", "p25"]
    assert len(result.rows) == 20
    assert result.rest is not None
    assert result.rest.key == "6 others together"
    assert result.rest.spent == "ε 0.021"
    assert result.rest.refused == 12


def test_usage_rows_name_the_analysts() -> None:
    (only,) = by_key(dataset(), [row("ana", "0.5", 3, 1)]).rows
    assert (only.key, only.spent, only.bar.used, only.granted) == ("ana", "ε 0.5", "50 %", 3)


def test_refusal_rows_name_the_deciding_limit() -> None:
    result = why(
        refusals=(
            RefusalsByReason(reason="exhausted", level="team", refused=4),
            RefusalsByReason(reason="exhausted", refused=2),
            RefusalsByReason(reason="closed", refused=1),
        )
    )
    first, second, third = refusals(result)
    assert (first.title, first.times, first.width) == (
        "Did not fit at a team's limit or period limit",
        4,
        100,
    )
    assert second.meaning.startswith(NO_ROOM)
    assert (third.code, third.width) == ("closed", 25)
    assert refusals(why()) == ()


def test_a_forecast_has_its_range_or_the_reason_for_none() -> None:
    at = "2027-01-{}T00:00:00.000Z"
    week = Forecast(
        scope="all",
        days=7,
        spent="0.07",
        per_day=0.01,
        left="0.5",
        runs_out_at=at.format("10"),
        earliest=at.format("05"),
    )
    still = Forecast(scope="team", name="red", days=30, spent="0", per_day=0, left="0.1")
    dark = Forecast(scope="analyst", name="ana", days=1, spent="0.01", per_day=0.01, note="no sum")
    other = Forecast(scope="analyst", name="ben", days=1, spent="0.01", per_day=0.01)
    rows = forecast_rows(why(forecasts=(week, still, dark, other)), "ana")
    assert [(row.whose, row.pace, row.runs_out, row.range) for row in rows] == [
        ("all together", "the last 7 days", "2027-01-10", "2027-01-05 to never"),
        ("team red", "the last 30 days", "not at this rate", ""),
        ("you", "the last day", "not known", ""),
    ]
    assert forecast_notes(rows) == "no sum"
    alike = tuple(replace(still, days=days) for days in (1, 7, 30))
    (row,) = forecast_rows(why(forecasts=alike), "ana")
    assert row.pace == "the last day, the last 7 days, the last 30 days"


def why(**fields: Any) -> Why:
    result = {"dataset": "census", "unit": "epsilon", "at": "2026-11-21T12:00:00.000Z"}
    amounts = {"budget": "1", "spent": "0.5", "left": "0.5"}
    return Why(**{**result, **amounts, "spent_ratio": 0.5, "state": "open", **fields})


def test_the_words_of_each_reason_have_names_in_them() -> None:
    counts = [RefusalsByReason(reason=str(each), level=None, refused=1) for each in REASONS]
    for each in refusals(why(refusals=counts)):
        assert "{" not in each.meaning, each
