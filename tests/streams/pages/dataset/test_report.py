"""Reports of a dataset: what they count, and who may open them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words

PATH = "/pages/datasets/survey/report"


def get(server: PagesServer, name: str | None, path: str = PATH) -> Any:
    return server.http.get(path, headers=server.auth_headers(name))


def table(server: PagesServer, name: str, by: str, path: str = PATH) -> list[dict[str, str]]:
    """Return a table as CSV has it."""
    answer = get(server, name, f"{path}/csv?by={by}")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["cache-control"] == "no-store"
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_a_report_counts_by_month_team_and_purpose(shared_pages: PagesServer) -> None:
    page = get(shared_pages, "olga").text
    said = words(page)
    assert "Guarantee: ε = 1, δ = 1e-6, per person. Spent: ε 0.314, 31.4 % of the budget." in said
    assert "blue 20 % ε 0.2 1 1" in said
    assert "counts by county 6 % ε 0.06 6 0" in said
    assert "<script" not in page
    assert f'href="{PATH}/csv?by=team"' in page
    assert f'href="{PATH}"' in shared_pages.page("olga").text
    teams = {row["team"]: row for row in table(shared_pages, "olga", "team")}
    assert teams["red"]["spent"] == "0.064"
    months = table(shared_pages, "olga", "month")
    assert sum(int(row["granted"]) for row in months) == 9
    assert all(row["month"].startswith("2026-") for row in months)
    purposes = table(shared_pages, "olga", "purpose")
    assert {"income model", "a first look"} <= {row["purpose"] for row in purposes}


@pytest.mark.parametrize("end", ["", "/csv?by=team", "/csv?by=purpose", "/csv"])
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
