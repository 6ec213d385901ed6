"""An overview shows what the single routes show, and nothing that they hide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.every_case import check_each
from tests.streams.auth.roles_server import KINDS, ROLES, RolesServer

NAMES = list(ROLES.values())
everywhere = pytest.mark.parametrize("dataset", [*KINDS, "elsewhere", "nowhere"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    with RolesServer(tmp_path_factory.mktemp("overview")) as server:
        server.furnish()
        for dataset in KINDS:
            for name in ("ana", "ben"):
                server.granted(dataset, name)
                server.granted(dataset, name, via="eng")
        yield server


def answered(server: RolesServer, name: str | None, path: str, **query: str | int) -> Any:
    """Return what a route answers; its status where that is not 200."""
    answer = server.see(name, path, **query)
    return answer.json() if answer.status_code == 200 else answer.status_code


def test_each_part_of_an_overview_equals_its_own_route(server: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        path = f"/datasets/{dataset}"
        found, view = answered(server, name, f"{path}/overview"), answered(server, name, path)
        if isinstance(view, int):
            assert found == view
            return
        assert found["dataset"] == view
        assert found["members"] == answered(server, name, f"{path}/members")
        assert found["asks"] == answered(server, name, f"{path}/more")
        caller = found["caller"]
        assert caller["name"] == name
        limits = answered(server, name, f"{path}/limits")
        assert found["limits"] == (limits if caller["sees_all"] else [])
        if caller["asks"]:
            assert found["budget"] == answered(server, name, f"{path}/budgets/{name}")
            assert found["why"] == answered(server, name, f"{path}/why", analyst=name) | {
                "at": found["why"]["at"]
            }
        else:
            assert found["budget"] is None
            why = answered(server, name, f"{path}/why") | {"at": found["why"]["at"]}
            if not caller["sees_all"]:  # the route adds a caller's row even if they cannot ask
                for field, key in (("by_analyst", "analyst"), ("forecasts", "name")):
                    why[field] = [row for row in why[field] if row[key] != name]
            assert found["why"] == why
        for by in ("analyst", "day", "purpose"):
            rows, result = answered(server, name, f"{path}/usage", by=by), found[f"{by}s"]
            if result is None:
                assert rows == 403 or not caller["sees_requests"]
                continue
            assert caller["sees_requests"]
            fields = ("granted", "refused", "spent")
            assert result == [
                {"key": row[by]} | {each: row[each] for each in fields} for row in rows
            ]

    check_each(check_case, [*KINDS, "elsewhere", "nowhere"], NAMES)


def test_an_overview_lists_the_visible_requests_newest_first(server: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        found = answered(server, name, f"/datasets/{dataset}/overview")
        if isinstance(found, int):
            return
        page = answered(server, name, f"/datasets/{dataset}/requests", limit=1000)["decisions"]
        asked = [each for each in page if "analyst" in each["request"]]
        if not found["caller"]["sees_all"]:
            asked = [
                each
                for each in asked
                if name in {each["request"]["analyst"], each["request"].get("via")}
            ]
        assert found["requests"]["decisions"] == asked[::-1]

    check_each(check_case, [*KINDS, "elsewhere", "nowhere"], NAMES)


@everywhere
def test_no_query_parameter_of_an_overview_changes_the_caller(
    server: RolesServer, dataset: str
) -> None:
    for field in ("viewer", "caller", "analyst", "name", "by", "who"):
        answer = server.http.get(
            f"/datasets/{dataset}/overview?{field}=olga", headers=server.auth_headers("ana")
        )
        assert (answer.status_code, answer.json().get("error")) == (400, "invalid_query")
