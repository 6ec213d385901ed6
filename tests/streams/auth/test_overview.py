"""An overview shows what the single routes show, and nothing that they hide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.streams.auth.roles_door import KINDS, ROLES, RolesDoor

NAMES = list(ROLES.values())
everybody = pytest.mark.parametrize("name", NAMES)
everywhere = pytest.mark.parametrize("dataset", [*KINDS, "elsewhere", "nowhere"])


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesDoor]:
    with RolesDoor(tmp_path_factory.mktemp("overview")) as door:
        door.furnish()
        for dataset in KINDS:
            for name in ("ana", "ben"):
                door.granted(dataset, name)
                door.granted(dataset, name, via="eng")
        yield door


def answered(door: RolesDoor, name: str | None, path: str, **query: str | int) -> Any:
    """Return what a route answers; its status where that is not 200."""
    answer = door.see(name, path, **query)
    return answer.json() if answer.status_code == 200 else answer.status_code


@everybody
@everywhere
def test_each_part_is_what_its_own_route_shows(
    door: RolesDoor, name: str | None, dataset: str
) -> None:
    path = f"/datasets/{dataset}"
    found, view = answered(door, name, f"{path}/overview"), answered(door, name, path)
    if isinstance(view, int):
        assert found == view
        return
    assert found["dataset"] == view
    assert found["members"] == answered(door, name, f"{path}/members")
    caller = found["caller"]
    assert caller["name"] == name
    limits = answered(door, name, f"{path}/limits")
    assert found["limits"] == (limits if caller["sees_all"] else [])
    if caller["asks"]:
        assert found["budget"] == answered(door, name, f"{path}/budgets/{name}")
        assert found["why"] == answered(door, name, f"{path}/why", analyst=name) | {
            "at": found["why"]["at"]
        }
    else:
        assert found["budget"] is None
        why = answered(door, name, f"{path}/why") | {"at": found["why"]["at"]}
        if not caller["sees_all"]:  # the route adds a caller's row even if they cannot ask
            for field, key in (("by_analyst", "analyst"), ("forecasts", "name")):
                why[field] = [row for row in why[field] if row[key] != name]
        assert found["why"] == why
    for by in ("analyst", "day", "purpose"):
        rows, told = answered(door, name, f"{path}/usage", by=by), found[f"{by}s"]
        if told is None:
            assert rows == 403 or not caller["sees_requests"]
            continue
        assert caller["sees_requests"]
        fields = ("granted", "refused", "spent")
        assert told == [{"key": row[by]} | {each: row[each] for each in fields} for row in rows]


@everybody
@everywhere
def test_the_latest_requests_are_among_those_that_are_shown(
    door: RolesDoor, name: str | None, dataset: str
) -> None:
    found = answered(door, name, f"/datasets/{dataset}/overview")
    if isinstance(found, int):
        return
    page = answered(door, name, f"/datasets/{dataset}/requests", limit=1000)["decisions"]
    asked = [each for each in page if "analyst" in each["request"]]
    if not found["caller"]["sees_all"]:
        asked = [
            each
            for each in asked
            if name in {each["request"]["analyst"], each["request"].get("via")}
        ]
    assert found["requests"]["decisions"] == asked[::-1]


@everywhere
def test_no_parameter_names_the_caller(door: RolesDoor, dataset: str) -> None:
    own = answered(door, "ana", f"/datasets/{dataset}/overview")
    for field in ("viewer", "caller", "analyst", "name", "by", "who"):
        answer = door.http.get(
            f"/datasets/{dataset}/overview?{field}=olga", headers=door.shown("ana")
        )
        other = answer.json() if answer.status_code == 200 else answer.status_code
        assert other == (own if isinstance(own, int) else own | {"why": other["why"]})
        if not isinstance(own, int):
            assert other["caller"]["name"] == "ana"
