"""Who sees what at the server: every role, every look, every kind of dataset; by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from streams.pages import PAGES
from tests.every_case import check_each
from tests.streams.auth.roles_server import KINDS, RolesServer, misspelt
from tests.streams.auth.visible import (
    ASKED,
    KNOWN,
    MEMBERS,
    NAMES,
    SEE_ALL,
    label,
    status,
    visible,
    visible_to,
)
from tests.streams.gateway.records import amending

_FORM_ID = r'name="request_id" value="[^"]*"'


class Furnished(NamedTuple):
    server: RolesServer
    begin: str
    bodies: dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    with RolesServer(tmp_path_factory.mktemp("reading"), pages=PAGES) as server:
        begin = position(server)
        server.furnish()
        bodies = {}
        for dataset in KINDS:
            for name in ("ana", "ben"):
                bodies[dataset, name] = server.granted(dataset, name)
                bodies[dataset, f"{name} by eng"] = server.granted(dataset, name, via="eng")
        # What everybody sees comes last: a stream is read up to here.
        server.done(
            "olga",
            "/datasets/open-all/amend",
            {**amending(server.clock, "open-all", most_per_request="0.5"), "by": "olga"},
            "amended",
        )
        yield Furnished(server, begin, bodies)


def position(server: RolesServer) -> str:
    with server.http.stream("GET", "/events", headers=server.auth_headers("root")) as answer:
        for line in answer.iter_lines():
            if line.startswith("id: "):
                return line[4:]
    raise AssertionError("the stream has ended")


def expected_decisions(name: str, dataset: str) -> set[str]:
    """Return the labels of the decisions on a dataset that somebody sees."""
    what = visible_to(name, dataset)
    if what is None:
        return set()
    owners = {"opened"} | ({"amended"} if dataset == "open-all" else set())
    members = MEMBERS - {"olga"} if name in SEE_ALL else {name} & (MEMBERS - {"olga"})
    return what.asked | owners | {f"member {each}" for each in members}


def test_the_dataset_list_contains_only_visible_datasets(furnished: Furnished) -> None:
    def check_case(name: str | None) -> None:
        server = furnished.server
        answer, page = server.see(name, "/datasets"), server.see(name, "/")
        if name is None:
            assert (answer.status_code, page.status_code) == (401, 401)
            return
        assert {view["dataset"] for view in answer.json()} == visible(name)
        for dataset in (*KINDS, "elsewhere"):
            assert (f">{dataset}<" in page.text) == (dataset in visible(name))
        first = server.see(name, "/datasets", limit=1).json()
        assert [view["dataset"] for view in first] == sorted(visible(name))[:1]

    check_each(check_case, NAMES)


def test_a_hidden_dataset_gets_the_answer_of_a_missing_one(furnished: Furnished) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        server, expected = furnished.server, status(name, dataset)
        limits = ("/limits", f"/budgets/{name}")  # see test_reading_limits.py
        others = ("/usage?by=day", "/requests?after=3")
        for tail in ("", "/usage", "/requests", "/members", *limits, *others):
            answer, missing = (
                server.http.get(f"/datasets/{each}{tail}", headers=server.auth_headers(name))
                for each in (dataset, misspelt(dataset))
            )
            if expected != 200:
                assert answer.status_code == expected == missing.status_code
                assert answer.text.replace(dataset, misspelt(dataset)) == missing.text
            elif tail != "/usage?by=day":
                assert answer.status_code == 200
                assert missing.status_code == 404
        preview = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person"}
        body = {**preview, "neighbours": "add_remove"}
        headers = {"content-type": "application/json", **server.auth_headers(name)}
        path = f"/datasets/{dataset}/preview"
        answer = server.http.post(path, content=msgspec.json.encode(body), headers=headers)
        assert answer.status_code == expected

    check_each(check_case, KINDS, NAMES)


def test_the_request_list_contains_only_visible_decisions(furnished: Furnished) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        if name is None or visible_to(name, dataset) is None:
            return  # nothing of it, see above
        found, after = set[str](), 0
        while True:
            page = furnished.server.see(name, f"/datasets/{dataset}/requests", after=after, limit=2)
            assert len(page.json()["decisions"]) <= 2
            found |= {label(decision) for decision in page.json()["decisions"]}
            if page.json()["next"] == after:
                break
            after = page.json()["next"]
        assert found == expected_decisions(name, dataset)

    check_each(check_case, KINDS, NAMES)


def test_a_single_decision_is_shown_only_if_visible_to_the_caller(furnished: Furnished) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        server, what = furnished.server, visible_to(name, dataset)
        for each in sorted(ASKED):
            body = furnished.bodies[dataset, each]
            path = f"/datasets/{dataset}/requests/{body['request_id']}"
            answer = server.see(name, path, analyst=body["analyst"])
            if what is not None and each in what.asked:
                assert label(answer.json()) == each
                assert answer.json()["granted"] is True
                continue
            assert answer.status_code == (401 if name is None else 404)
            other = body["request_id"][:-1] + ("0" if body["request_id"][-1] != "0" else "1")
            missing = server.see(
                name, f"/datasets/{dataset}/requests/{other}", analyst=body["analyst"]
            )
            assert answer.text.replace(body["request_id"], other) == missing.text

    check_each(check_case, KINDS, NAMES)


def test_callers_who_see_all_requests_get_the_usage_of_everybody(furnished: Furnished) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        what, path = visible_to(name, dataset), f"/datasets/{dataset}/usage"
        if what is None or name is None:
            return
        rows = furnished.server.see(name, path).json()
        sees_all = what.asked == ASKED
        assert {row["analyst"] for row in rows} == (
            {"ana", "ben"} if sees_all else {"ana", "ben"} & {name}
        )
        for by in ("purpose", "day", "month"):
            answer = furnished.server.see(name, path, by=by)
            assert answer.status_code == (200 if sees_all else 403)

    check_each(check_case, KINDS, NAMES)


def test_owners_auditors_and_administrators_see_all_members(furnished: Furnished) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        what = visible_to(name, dataset)
        if what is None:
            return
        rows = furnished.server.see(name, f"/datasets/{dataset}/members").json()
        assert {row["member"] for row in rows} == what.members

    check_each(check_case, KINDS, NAMES)


def test_the_dataset_page_names_only_visible_people(furnished: Furnished) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        what, address = visible_to(name, dataset), f"/pages/datasets/{dataset}"
        page = furnished.server.see(name, address)
        assert page.status_code == status(name, dataset)
        if what is None:
            missing = furnished.server.see(name, f"/pages/datasets/{misspelt(dataset)}")
            alike = [re.sub(_FORM_ID, "", each.text) for each in (page, missing)]
            assert alike[0].replace(dataset, misspelt(dataset)) == alike[1]
            return
        read = re.sub(r"<[^>]+>", " ", page.text.partition("<main")[2])
        named = {each for each in KNOWN if re.search(rf"\b{each}\b", read)}
        analysts = {asked.partition(" by ")[0] for asked in what.asked}
        engines = {asked.partition(" by ")[2] for asked in what.asked} - {""}
        must_be_named = (analysts | what.members) - {name}
        assert must_be_named <= named - {name} <= must_be_named | engines

    check_each(check_case, KINDS, NAMES)


ME = {
    "ana": ("analyst", set(KINDS)),
    "ben": ("analyst", set(KINDS)),
    "otto": ("analyst", {"elsewhere"}),
    "eng": ("engine", set(KINDS)),
    "aud": ("auditor", set(KINDS)),
    "olga": ("owner", {*KINDS, "elsewhere"}),
}
"""Role and datasets; eve's time is over everywhere."""


def test_me_shows_the_authenticated_caller(furnished: Furnished) -> None:
    def check_case(name: str | None) -> None:
        answer = furnished.server.see(name, "/me")
        if name is None:
            assert answer.status_code == 401
            return
        me = answer.json()
        assert (me["name"], me["administrator"]) == (name, name == "root")
        role, datasets = ME.get(name, ("", set()))
        assert {each["dataset"]: each["roles"] for each in me["datasets"]} == {
            dataset: [role] for dataset in datasets
        }

    check_each(check_case, NAMES)


def test_head_needs_authentication_and_metrics_need_an_administrator(furnished: Furnished) -> None:
    def check_case(name: str | None) -> None:
        server = furnished.server
        for path in ("/head", "/schema/openapi.json", "/me/budgets"):
            assert server.see(name, path).status_code == (401 if name is None else 200)
        expected = {None: 401, "root": 200}.get(name, 403)
        assert server.see(name, "/metrics").status_code == expected

    check_each(check_case, NAMES)


def test_the_event_stream_contains_exactly_the_visible_decisions(furnished: Furnished) -> None:
    def check_case(name: str, query: str) -> None:
        decisions, alerts = read(furnished, name, query)
        for dataset in KINDS:
            expected = expected_decisions(name, dataset)
            if query == "?dataset=open-all" and dataset != "open-all":
                expected = set()
            if query == "?analyst=olga":
                # What olga has ordered, not what was asked of her dataset.
                expected = {each for each in expected if each.startswith(("member", "amended"))}
            assert decisions.get(dataset, set()) == expected, dataset
            is_expected = visible_to(name, dataset) is not None and (
                query != "?dataset=open-all" or dataset == "open-all"
            )
            assert (dataset in alerts) == is_expected, dataset
        if query != "?dataset=open-all":
            assert ("elsewhere" in decisions) == (name in {"otto", "olga", "root"})

    check_each(check_case, KNOWN, ["", "?analyst=olga", "?dataset=open-all", "?crossed=true"])


def read(furnished: Furnished, name: str, query: str) -> tuple[dict[str, set[str]], set[str]]:
    """Return the decisions and alerts that a stream has, by dataset, from before everything."""
    server = furnished.server
    decisions, alerts = dict[str, set[str]](), set[str]()
    end = position(server)
    headers = {"Last-Event-ID": furnished.begin, **server.auth_headers(name)}
    last, kind = "", ""
    with server.http.stream("GET", f"/events{query}", headers=headers) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "id":
                last = value
            elif field == "event":
                kind = value
            elif field == "data" and kind == "alert":
                alerts.add(json.loads(value)["dataset"])
            elif field == "data":
                decision = json.loads(value)
                decisions.setdefault(decision["dataset"], set()).add(label(decision))
            elif not line and last == end:
                break
    return decisions, alerts
