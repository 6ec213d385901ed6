"""Visibility of limits and remaining budgets: every role, every kind of dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest

from tests.every_case import check_each
from tests.streams.auth.roles_server import KINDS, ROLES, RolesServer, misspelt, setting
from tests.streams.auth.visible import SEE_ALL, status, visible_to
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import closing, new_id, request

everywhere = pytest.mark.parametrize("dataset", KINDS)
OPEN: Final = {dataset for dataset, (access, _) in KINDS.items() if access == "anyone"}
LIMITS: Final[list[dict[str, Any]]] = [
    {"scope": "dataset", "pace": {"part": "0.9", "period": "P1D"}},
    {"scope": "team", "name": "blue", "part": "0.5", "reserved": "0.2"},
    {"scope": "team", "name": "red", "part": "0.4"},
    {"scope": "each", "name": "blue", "part": "0.2"},
    {"scope": "each", "name": "red", "part": "0.3"},
    {"scope": "analyst", "name": "ben", "part": "0.1"},
    {"scope": "analyst", "name": "zoe", "part": "0.05"},
]
ALL_LIMITS: Final = [
    "dataset",
    *("team blue", "team red"),
    *("each blue", "each red"),
    *("analyst ben", "analyst zoe"),
]
LIMITS_OF: Final = {
    "ana": ["dataset", "team blue", "each blue ana"],
    "ben": ["dataset", "team red", "analyst ben"],  # their own limit, in place of the team's
    "zoe": ["dataset", "analyst zoe"],  # of no team
}
"""The limits of those under more than the dataset's; eve was in team blue until she was not."""


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    with RolesServer(tmp_path_factory.mktemp("limits")) as server:
        server.furnish()
        for dataset in KINDS:
            server.enrol_for_a_moment(dataset, "eve", "analyst", "auditor", team="blue")
        for dataset in KINDS:
            server.enrol(dataset, "ana", "analyst", team="blue")
            server.enrol(dataset, "ben", "analyst", team="red")
            for fields in LIMITS:
                limited(server, dataset, **fields)
            server.granted(dataset, "ana")
            server.granted(dataset, "ana", via="eng")
            server.granted(dataset, "ben")
        yield server


def limited(server: RolesServer, dataset: str, **fields: Any) -> None:
    body = {"version": 1, "type": "limit", "dataset": dataset, "by": "olga", **fields}
    server.done("olga", f"/datasets/{dataset}/limits", body, "limit_set")


def named(levels: list[dict[str, Any]]) -> list[str]:
    """Return the subjects of the limits, as one text."""
    whose = ([each.get(field) for field in ("scope", "name", "analyst")] for each in levels)
    return [" ".join(part for part in parts if part) for parts in whose]


def limits_of(name: str) -> list[str]:
    return LIMITS_OF.get(name, ["dataset"])


def get(server: RolesServer, name: str | None, path: str) -> Any:
    answer = server.see(name, path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def preview(
    server: RolesServer, name: str | None, dataset: str, epsilon: str = "60", **more: str
) -> httpx.Response:
    body = {"claim": {"type": "pure", "epsilon": epsilon}, "unit": "person", **more}
    return server.http.post(
        f"/datasets/{dataset}/preview",
        content=msgspec.json.encode({**body, "neighbours": "add_remove"}),
        headers={"content-type": "application/json", **server.auth_headers(name)},
    )


def test_owners_and_auditors_see_all_limits_and_analysts_their_own(furnished: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        if name is None or visible_to(name, dataset) is None:
            return  # nothing of it, see below
        levels = get(furnished, name, f"/datasets/{dataset}/limits")
        assert named(levels) == (ALL_LIMITS if name in SEE_ALL else limits_of(name))
        used = {whose: each.get("used") for whose, each in zip(named(levels), levels, strict=True)}
        pace = levels[0]["pace"]
        assert (used["dataset"], pace["used"]["epsilon"]) == (None, "0.3")
        assert (pace["left"]["epsilon"], pace["ends_at"][:19]) == ("89.7", "2026-11-22T12:00:00")
        result = {whose: sums["epsilon"] for whose, sums in used.items() if sums is not None}
        expected = {
            "team blue": "0.2",
            "each blue ana": "0.2",
            "team red": "0.1",
            "analyst ben": "0.1",
            "analyst zoe": "0",
        }
        # A default is used by nobody: those who see it see no analyst's use of it.
        assert result == {whose: expected[whose] for whose in named(levels) if whose in expected}

    check_each(check_case, KINDS, ROLES.values())


def test_limits_of_a_hidden_dataset_get_the_answer_of_a_missing_one(furnished: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        expected = status(name, dataset)
        for tail in ("limits", f"budgets/{name}", "budgets/ben", "budgets/nobody-yet"):
            answer, missing = (
                furnished.see(name, f"/datasets/{each}/{tail}")
                for each in (dataset, misspelt(dataset))
            )
            assert missing.status_code == (401 if name is None else 404)
            if expected != 200:
                assert answer.status_code == expected
                assert answer.text.replace(dataset, misspelt(dataset)) == missing.text
        for more in ({}, {"analyst": "ben"}, {"analyst": "nobody-yet"}):
            answer, missing = (
                preview(furnished, name, each, **more) for each in (dataset, misspelt(dataset))
            )
            if expected != 200:
                assert answer.status_code == expected == missing.status_code
                assert answer.text.replace(dataset, misspelt(dataset)) == missing.text

    check_each(check_case, KINDS, ROLES.values())


def test_only_callers_with_full_view_get_budgets_of_others(furnished: RolesServer) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        if name is None or visible_to(name, dataset) is None:
            return
        for analyst in ("ana", "ben", "zoe", "eve", "nobody-yet", name):
            answer = furnished.see(name, f"/datasets/{dataset}/budgets/{analyst}")
            if name not in SEE_ALL and analyst != name:
                assert (answer.status_code, answer.json()["error"]) == (403, "not_permitted"), (
                    analyst
                )
                assert not {"used", "left", "levels"} & answer.json().keys()
                continue
            budget = answer.json()
            assert (answer.status_code, budget["analyst"]) == (200, analyst)
            assert named(budget.get("levels", [])) == limits_of(analyst)
            assert budget.get("team") == {"ana": "blue", "ben": "red"}.get(analyst)
            # Team blue has 20 of its own: what it used of these is no more kept from the others.
            left = "99.7" if analyst == "ana" else "79.9"
            assert (budget["left"]["epsilon"], budget["budget"]["epsilon"]) == (left, "100")

    check_each(check_case, KINDS, ROLES.values())


def test_an_invalid_analyst_name_gets_the_same_answer_for_every_dataset(
    furnished: RolesServer,
) -> None:
    def check_case(name: str | None) -> None:
        for dataset in (*KINDS, "nowhere-at-all"):
            answer = furnished.see(name, f"/datasets/{dataset}/budgets/a%20b")
            assert answer.status_code == (401 if name is None else 422)
            body = answer.json()
            assert (body.get("field"), body.get("value")) == (
                (None, None) if name is None else ("analyst", "a b")
            )
            if name is not None:
                assert preview(furnished, name, dataset, analyst="a b").status_code == 422

    check_each(check_case, ROLES.values())


def test_me_budgets_lists_datasets_that_the_caller_may_query(furnished: RolesServer) -> None:
    def check_case(name: str | None) -> None:
        answer = furnished.see(name, "/me/budgets")
        if name is None:
            assert answer.status_code == 401
            return
        # An owner, an auditor, an engine and an administrator ask as analysts only where all may.
        member_of = {"ana": {*KINDS}, "ben": {*KINDS}, "otto": {"elsewhere"}}.get(name, set())
        budgets = answer.json()
        assert [budget["dataset"] for budget in budgets] == sorted(OPEN | member_of)
        for budget in budgets:
            assert budget == get(furnished, name, f"/datasets/{budget['dataset']}/budgets/{name}")

    check_each(check_case, ROLES.values())


def test_a_preview_for_another_analyst_needs_full_view_or_the_engine_role(
    furnished: RolesServer,
) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        if name is None or visible_to(name, dataset) is None:
            return
        own = preview(furnished, name, dataset)
        assert own.status_code == 200
        assert own.json() == preview(furnished, name, dataset, analyst=name).json()
        for analyst in ("ana", "ben", "zoe", "nobody-yet", name):
            answer = preview(furnished, name, dataset, analyst=analyst)
            if name not in {*SEE_ALL, "eng", analyst}:
                assert (answer.status_code, answer.json()["error"]) == (403, "not_permitted"), (
                    analyst
                )
                continue
            shown = answer.json()
            if dataset.startswith("closed") and analyst not in {"ana", "ben"}:
                assert shown["reason"] == "not_permitted", analyst
                continue
            level = {"ana": "team blue", "ben": "team red", "zoe": "analyst zoe"}.get(analyst)
            assert (named([shown["level"]]) if shown["level"] else None) == (level and [level])
            assert shown["granted"] == (level is None)
            if level is not None:
                assert named(shown["left_at"]) == [
                    each.removesuffix(f" {analyst}") if each.startswith("each") else each
                    for each in limits_of(analyst)
                ]

    check_each(check_case, KINDS, ROLES.values())


@everywhere
def test_a_preview_equals_the_later_decision(furnished: RolesServer, dataset: str) -> None:
    for name in ("ana", "ben"):
        shown = preview(furnished, name, dataset, "60").json()
        claim = {"type": "pure", "epsilon": "60"}
        body = request(furnished.clock, dataset=dataset, analyst=name, claim=claim)
        decision = furnished.done(name, "/requests", body, "refused")
        for field in ("reason", "level", "left_at", "fits"):
            assert shown[field] == decision[field], field


def test_a_member_who_changes_team_sees_its_limits_at_once(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.open_for_olga("census", access="members")
        server.enrol("census", "ana", "analyst", team="blue")
        for fields in LIMITS:
            limited(server, "census", **fields)
        for team, expected in (
            ("blue", ["dataset", "team blue", "each blue ana"]),
            ("red", ["dataset", "team red", "each red ana"]),
        ):
            server.done(
                "olga",
                "/datasets/census/members",
                setting("olga", "census", "ana", "analyst", team=team),
                "member_set",
            )
            assert named(get(server, "ana", "/datasets/census/limits")) == expected
            (budget,) = get(server, "ana", "/me/budgets")
            assert (budget["team"], named(budget["levels"])) == (team, expected)
        server.enrol("census", "ana")
        assert server.see("ana", "/datasets/census/limits").status_code == 404
        assert get(server, "ana", "/me/budgets") == []


def test_me_budgets_omits_closed_datasets(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        for dataset in ("census", "survey"):
            server.open_for_olga(dataset, access="members")
            server.enrol(dataset, "ana", "analyst")
        close = {**closing(server.clock, "census"), "by": "olga"}
        server.done("olga", "/datasets/census/close", close, "closed")
        assert [each["dataset"] for each in get(server, "ana", "/me/budgets")] == ["survey"]
        # A client that asks for it by id gets the outcome.
        assert get(server, "ana", "/datasets/census/budgets/ana")["left"]["epsilon"] == "100"


def test_without_authentication_everybody_sees_all_limits_and_me_budgets_is_empty(
    tmp_path: Path,
) -> None:
    with LocalServer(tmp_path / "ledger.db", TestClock()) as server:
        server.open("census", epsilon="100")
        for member, team in (("ana", "blue"), ("ben", "red")):
            owners(server, "member", member=member, roles=["analyst"], team=team)
        for fields in LIMITS:
            owners(server, "limit", **fields)
        assert named(server.http.get("/datasets/census/limits").json()) == ALL_LIMITS
        for analyst in ("ana", "ben", "zoe", "nobody-yet"):
            budget = server.http.get(f"/datasets/census/budgets/{analyst}").json()
            assert named(budget["levels"]) == limits_of(analyst)
        assert server.http.get("/me/budgets").json() == []
        assert server.http.get("/datasets/nowhere/limits").status_code == 404
        assert server.http.get("/datasets/nowhere/budgets/ana").status_code == 404
        assert server.http.get("/datasets/census/budgets/a%20b").status_code == 422
        wish = {"claim": {"type": "pure", "epsilon": "60"}, "unit": "person"}
        refused = {}
        for whose in ({}, {"analyst": "ana"}, {"analyst": "ben"}):
            body = {**wish, **whose, "neighbours": "add_remove"}
            level = server.post("/datasets/census/preview", body).json()["level"]
            refused[whose.get("analyst")] = level and level["name"]
        # Somebody of no team, where nobody is named.
        assert refused == {None: None, "ana": "blue", "ben": "red"}


def owners(server: LocalServer, kind: str, **fields: Any) -> None:
    body = {"request_id": new_id(server.clock), "dataset": "census", "by": "owner", **fields}
    answer = server.post(f"/datasets/census/{kind}s", {"version": 1, "type": kind, **body})
    assert answer.json()["outcome"] == f"{kind}_set", answer.text
