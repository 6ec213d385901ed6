"""Reports of a dataset: what they count, and who may open them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.streams.auth.survey_server import HOSTILE
from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words

PATH = "/pages/datasets/survey/report"


def get(server: PagesServer, name: str | None, path: str = PATH) -> Any:
    return server.http.get(path, headers=server.auth_headers(name))


def table(server: PagesServer, name: str, by: str, path: str = PATH) -> list[dict[str, str]]:
    """Return a table of all time as CSV has it."""
    answer = get(server, name, f"{path}/csv?by={by}&month=all")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["cache-control"] == "no-store"
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_a_report_of_all_time_counts_by_month_team_and_purpose(shared_pages: PagesServer) -> None:
    page = get(shared_pages, "olga", f"{PATH}?month=all").text
    said = words(page)
    assert "Guarantee: ε = 1, δ = 1e-6, per person." in said
    assert "Spent since the opening: ε 0.314, 31.4 % of the budget." in said
    assert "2026-11 (not ended) blue 20 % ε 0.2 1 1" in said
    assert "counts by county 6 % ε 0.06 6 0" in said
    assert "<script" not in page
    assert f'href="{PATH}/csv?by=team&amp;month=all"' in page
    assert f'href="{PATH}/parquet?by=team&amp;month=all"' in page
    assert f'href="{PATH}"' in shared_pages.page("olga").text
    teams = {row["team"]: row for row in table(shared_pages, "olga", "team")}
    assert teams["red"]["spent"] == "0.064"
    months = table(shared_pages, "olga", "month")
    assert sum(int(row["granted"]) for row in months) == 9
    assert all(row["month"].startswith("2026-") for row in months)
    purposes = table(shared_pages, "olga", "purpose")
    assert {"income model", "a first look"} <= {row["purpose"] for row in purposes}


def test_a_report_is_of_this_month_and_of_the_days_that_are_typed(
    shared_pages: PagesServer,
) -> None:
    now = words(get(shared_pages, "olga").text)
    assert "Period: 2026-11-01 to 2026-11-30" in now
    assert "2026-11 (not ended)" in now
    page = get(shared_pages, "olga", f"{PATH}?from=2026-11-22&to=2026-11-23").text
    assert "2026-11, 2026-11-22 to 2026-11-23 2 % ε 0.02 2 0" in words(page)
    assert "csv?by=analyst&amp;from=2026-11-22&amp;to=2026-11-23" in page
    empty = words(get(shared_pages, "olga", f"{PATH}?month=2025-01").text)
    assert "No requests in this period." in empty


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("month=2026-13", "Month: Must be a month such as 2026-10, not 2026-13."),
        ("from=2026-11-02&to=2026-11-01", "Must not be before from, 2026-11-02, not 2026-11-01."),
        ("from=<script>", "Must be a day such as 2026-10-01, not &lt;script&gt;."),
    ],
)
def test_a_wrong_period_is_marked_beside_its_field(
    shared_pages: PagesServer, query: str, said: str
) -> None:
    answer = get(shared_pages, "olga", f"{PATH}?{query}")
    assert answer.status_code == 422
    assert said in answer.text
    assert get(shared_pages, "olga", f"{PATH}/csv?{query}").status_code == 422


def test_parquet_has_the_rows_of_csv(shared_pages: PagesServer) -> None:
    answer = get(shared_pages, "olga", f"{PATH}/parquet?by=purpose&month=all")
    assert answer.headers["content-disposition"] == 'attachment; filename="survey-purpose.parquet"'
    found = pq.read_table(io.BytesIO(answer.content)).to_pylist()
    rows = table(shared_pages, "olga", "purpose")
    # The cells of CSV are never formulas, and escape what nobody sees.
    assert [row["spent"] for row in rows] == [row["spent"] for row in found]
    assert [int(row["granted"]) for row in rows] == [row["granted"] for row in found]
    assert HOSTILE in {row["purpose"] for row in found}


def test_without_pyarrow_the_page_says_which_extra_to_install(
    shared_pages: PagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    page = get(shared_pages, "olga").text
    assert "/parquet?" not in page
    assert "pip install &#39;.[parquet]&#39;" in page
    answer = get(shared_pages, "olga", f"{PATH}/parquet?by=team")
    assert answer.status_code == 422
    assert ".[parquet]" in answer.text
    assert get(shared_pages, "olga", f"{PATH}/csv?by=team").status_code == 200


@pytest.mark.parametrize("end", ["/xlsx", "/csv?by=everything"])
def test_an_export_that_there_is_not_is_refused(shared_pages: PagesServer, end: str) -> None:
    assert get(shared_pages, "olga", f"{PATH}{end}").status_code == 422


@pytest.mark.parametrize("end", ["", "/csv?by=team&month=all", "/parquet", "/csv"])
def test_only_who_sees_everybodys_requests_opens_a_report(
    shared_pages: PagesServer, end: str
) -> None:
    for name, status in (("olga", 200), ("aud", 200), ("root", 200), ("ana", 403), ("eng", 403)):
        answer = get(shared_pages, name, f"{PATH}{end}")
        assert answer.status_code == status, name
        assert status == 200 or ("otto" not in answer.text and "income" not in answer.text)
    assert get(shared_pages, "opie", f"{PATH}{end}").status_code == 404
    assert get(shared_pages, None, f"{PATH}{end}").status_code in {303, 401}


@pytest.fixture
def shown_to_members(tmp_path: Path) -> Iterator[PagesServer]:
    with PagesServer(tmp_path) as made:
        made.open_for_olga("team", access="members", visibility="members")
        for name, team in (("ana", "red"), ("otto", "blue")):
            made.enrol("team", name, "analyst", team=team)
            claim = {"type": "pure", "epsilon": "0.5"}
            body = request(made.clock, dataset="team", analyst=name, claim=claim)
            made.done(name, "/requests", body, "granted")
        yield made


def test_an_analyst_s_report_has_no_other_team(shown_to_members: PagesServer) -> None:
    path = "/pages/datasets/team/report"
    assert [row["team"] for row in table(shown_to_members, "ana", "team", path)] == ["red"]
    assert "blue" not in get(shown_to_members, "ana", path).text
    assert len(table(shown_to_members, "olga", "team", path)) == 2
