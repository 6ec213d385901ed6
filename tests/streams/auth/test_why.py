"""Visibility of `why`: every role, every kind of dataset."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest

from accountant.views.why import WHY_BYS
from tests.every_case import check_each
from tests.streams.auth.roles_server import KINDS, ROLES, RolesServer, misspelt, setting
from tests.streams.auth.visible import ASKED, SEE_ALL, status, visible_to

everywhere = pytest.mark.parametrize("dataset", KINDS)
TEAMS = {"ana": "blue", "ben": "red"}


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    with RolesServer(tmp_path_factory.mktemp("why")) as server:
        server.furnish()
        for dataset in KINDS:
            for name, team in TEAMS.items():
                body = setting("olga", dataset, name, "analyst", team=team)
                server.done("olga", f"/datasets/{dataset}/members", body, "member_set")
                server.granted(dataset, name)
            server.granted(dataset, "ana", via="eng")
        yield server


def why(server: RolesServer, name: str | None, dataset: str, **query: str) -> dict[str, Any]:
    answer = server.see(name, f"/datasets/{dataset}/why", **query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def forecast(found: dict[str, Any]) -> set[tuple[str, str | None]]:
    return {(each["scope"], each["name"]) for each in found["forecasts"]}


def test_why_is_available_to_callers_who_see_the_dataset(furnished: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        for tail in ("", "?format=csv&by=week", "?analyst=ben"):
            answer, missing = (
                furnished.http.get(
                    f"/datasets/{each}/why{tail}", headers=furnished.auth_headers(name)
                )
                for each in (dataset, misspelt(dataset))
            )
            assert answer.status_code == status(name, dataset)
            if answer.status_code != 200:
                assert answer.text.replace(dataset, misspelt(dataset)) == missing.text

    check_each(check_case, KINDS, ROLES.values())


def test_why_contains_only_rows_that_the_caller_may_see(furnished: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        what = visible_to(name, dataset)
        if name is None or what is None:
            return  # nothing of it, see above
        found, whole = why(furnished, name, dataset), why(furnished, "root", dataset)
        totals = ("budget", "left", "spent", "spent_ratio", "unit", "state")
        assert {field: found[field] for field in totals} == {
            field: whole[field] for field in totals
        }
        teams = {row["analyst"]: row["team"] for row in found["by_analyst"]}
        if name in SEE_ALL:
            assert {each: teams[each] for each in TEAMS} == TEAMS
            assert [row["team"] for row in found["by_team"]] == ["blue", "red"]
            assert {("team", "blue"), ("team", "red"), ("all", None)} < forecast(found)
            assert found["only"] is None
        elif what.asked == ASKED:
            own = TEAMS.get(name)
            assert {each: teams[each] for each in TEAMS} == {
                each: team if each == name else None for each, team in TEAMS.items()
            }
            assert [row["team"] for row in found["by_team"]] == ([own] if own else [])
            # What a limit leaves others is not for them.
            teams_seen = {("team", own)} if own else set()
            assert forecast(found) == {("all", None), ("analyst", name)} | teams_seen
            assert found["by_purpose"] == whole["by_purpose"]
            assert found["largest"] == whole["largest"]
        else:
            assert found["only"] == name
            assert set(teams) == {name}
            assert not found.get("largest")  # among which one's own are tells how large others' are
            for table in ("by_team", "by_purpose", "by_week", "refusals"):
                assert found[table] == []
            assert forecast(found) == {("analyst", name)}

    check_each(check_case, KINDS, ROLES.values())


def test_why_with_own_visibility_hides_other_analysts(furnished: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        what = visible_to(name, dataset)
        if name is None or what is None:
            return
        found = why(furnished, name, dataset, analyst="ben")
        sees_requests = what.asked == ASKED
        rows = {row["analyst"] for row in found["by_analyst"]}
        assert ("ben" in rows) == (sees_requests or name == "ben")
        if not sees_requests and name != "ben":
            for by in WHY_BYS:
                answer = furnished.see(name, f"/datasets/{dataset}/why", format="csv", by=by)
                assert "ben" not in answer.text

    check_each(check_case, KINDS, ROLES.values())


@everywhere
def test_why_returns_each_table_as_a_csv_download(furnished: RolesServer, dataset: str) -> None:
    whole = why(furnished, "olga", dataset)
    tables = {"analyst": "by_analyst", "week": "by_week", "grants": "largest"}
    for by, table in tables.items():
        answer = furnished.see("olga", f"/datasets/{dataset}/why", format="csv", by=by)
        assert answer.headers["content-type"].startswith("text/csv")
        # A browser saves it: what others wrote is no page of this server.
        file = f'attachment; filename="{dataset}-{by}.csv"'
        assert answer.headers["content-disposition"] == file
        assert answer.headers["x-content-type-options"] == "nosniff"
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        field = "cost" if by == "grants" else "spent"
        assert [row[field] for row in rows] == [row[field] for row in whole[table]]
        assert {(row["dataset"], row["unit"]) for row in rows} == {(dataset, "epsilon")}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("format=xml", "format"),
        ("format=csv&by=colour", "by"),
        ("by=colour", "by"),
        ("analyst=a%20b", "analyst"),
        ("analyst=", "analyst"),
    ],
)
def test_why_names_the_field_of_an_invalid_parameter(
    furnished: RolesServer, query: str, field: str
) -> None:
    headers = furnished.auth_headers("olga")
    answer = furnished.http.get(f"/datasets/closed-own/why?{query}", headers=headers)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    # Before the dataset is looked at: it tells nothing of which are there.
    missing = furnished.http.get(f"/datasets/nowhere/why?{query}", headers=headers)
    assert (missing.status_code, missing.json()) == (422, answer.json())
