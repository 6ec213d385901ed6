"""Requests that wait: who sees them, who is alerted, and who may answer them, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.streams.auth.roles_server import RolesServer
from tests.streams.auth.test_scope_alerts import Alerts, alerts_until_the_end
from tests.streams.gateway.records import request

NAMES = ("olga", "otto", "aud", "root", "ana", "ben", "eng", "opie")
ALL = {"ana", "ben", "ben by eng", "otto"}
VISIBLE = {
    "olga": ALL,
    "otto": ALL,
    "aud": ALL,
    "root": ALL,
    "ana": {"ana"},
    "ben": {"ben", "ben by eng"},
    "eng": {"ben by eng"},
    "opie": None,
}
ALERTED = {"olga", "otto", "aud", "root"}


class Waiting:
    """`census` of olga and otto, of which everything waits."""

    def __init__(self, server: RolesServer) -> None:
        self.server = server
        policy = {"access": "members", "visibility": "members", "alert_at": ["0.01"]}
        server.open_for_olga("census", approve_above="0.000001", **policy)
        for name, role in (("ana", "analyst"), ("ben", "analyst"), ("eng", "engine")):
            server.enrol("census", name, role)
        server.enrol("census", "aud", "auditor")
        server.enrol("census", "otto", "owner", "analyst")

    def ask(self, name: str, *, via: str | None = None) -> dict[str, Any]:
        more = {} if via is None else {"via": via}
        body = request(self.server.clock, dataset="census", analyst=name, **more)
        answer = self.server.send(via or name, "/requests", body)
        found: dict[str, Any] = answer.json()
        assert (answer.status_code, found["outcome"]) == (202, "pending")
        return found

    def answer(self, name: str, kind: str, waiting: dict[str, Any]) -> Any:
        body = {"version": 1, "type": kind, "dataset": "census", "by": name}
        body |= {"pending": waiting["hash"], "reason": "see table 4"}
        return self.server.send(name, f"/datasets/census/{kind}", body)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    with RolesServer(tmp_path) as server:
        yield Waiting(server)


def label(view: dict[str, Any]) -> str:
    return view["analyst"] + (f" by {view['via']}" if "via" in view else "")


def test_owners_and_auditors_see_all_that_waits_and_others_their_own(waiting: Waiting) -> None:
    for name in ("ana", "ben", "otto"):
        waiting.ask(name)
    waiting.ask("ben", via="eng")
    server = waiting.server
    for name in NAMES:
        answer = server.see(name, "/datasets/census/pending")
        seen = VISIBLE[name]
        if seen is None:
            assert answer.status_code == 404, name
            continue
        assert {label(each) for each in answer.json()} == seen, name
        shown = server.see(name, "/datasets/census/overview").json()
        assert {label(each) for each in shown["pending"]} == seen, name
    assert server.see(None, "/datasets/census/pending").status_code == 401


@pytest.mark.parametrize("kind", ["approve", "deny"])
def test_only_an_owner_answers_and_nobody_approves_their_own(waiting: Waiting, kind: str) -> None:
    asked, own = waiting.ask("ana"), waiting.ask("otto")
    for name in ("aud", "root", "ana", "ben", "eng", "opie"):
        assert waiting.answer(name, kind, asked).status_code == 403, name
    refused = waiting.answer("otto", "approve", own).json()
    assert refused["reason"] == "own_request"
    answer = waiting.answer("otto", kind, asked)
    assert answer.status_code == 200, answer.text
    assert answer.json().get("reason", "granted") in {"granted", "denied"}
    left = waiting.server.see("olga", "/datasets/census/pending").json()
    assert [each["analyst"] for each in left] == ["otto"]


def test_owners_are_alerted_of_what_waits_and_the_asker_of_the_answer(waiting: Waiting) -> None:
    names = [name for name in NAMES if name != "opie"]
    readers = {name: Alerts(waiting.server, name) for name in names}
    first, second = waiting.ask("ana"), waiting.ask("ben")
    assert waiting.answer("olga", "approve", first).status_code == 200
    assert waiting.answer("otto", "deny", second).status_code == 200
    found = alerts_until_the_end(waiting.server, readers)
    of_ana, of_ben = {"pending ana", "approved ana"}, {"pending ben", "denied ben"}
    expected = {name: of_ana | of_ben if name in ALERTED else set() for name in names}
    assert found == expected | {"ana": of_ana, "ben": of_ben}


def test_a_stream_begins_with_what_waits_still(waiting: Waiting) -> None:
    names = [name for name in NAMES if name != "opie"]
    assert waiting.answer("olga", "approve", waiting.ask("ben")).status_code == 200
    waiting.ask("ana")
    readers = {name: Alerts(waiting.server, name, crossed="true") for name in names}
    found = alerts_until_the_end(waiting.server, readers)
    expected = {name: {"pending ana"} if name in ALERTED else set() for name in names}
    assert found == expected | {"ana": {"pending ana"}}
