"""Each caller receives the alerts of their own limits; owners and auditors receive all."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.patience import PATIENCE_S
from tests.streams.auth.roles_server import RolesServer
from tests.streams.gateway.records import amending

LIMIT = {"version": 1, "type": "limit", "dataset": "census", "by": "olga"}
NAMES = ("olga", "aud", "root", "ana", "ben", "otto", "eng")
ALL_ALERTS = {"team red", "team blue", "each red ana", "each red ben", "analyst otto"}
VISIBLE_ALERTS = {
    "olga": ALL_ALERTS,
    "aud": ALL_ALERTS,
    "root": ALL_ALERTS,
    "ana": {"team red", "each red ana"},
    "ben": {"team red", "each red ben"},
    "otto": {"team blue", "analyst otto"},
    "eng": set(),
}


@pytest.fixture(params=["own", "members"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A dataset with two teams, whose analysts see each other's requests, or do not."""
    with RolesServer(tmp_path) as made:
        made.open_for_olga("census", access="members", visibility=request.param, alert_at=["0.01"])
        for name, team in (("ana", "red"), ("ben", "red"), ("otto", "blue")):
            made.enrol("census", name, "analyst", team=team)
        made.enrol("census", "eng", "engine")
        made.enrol("census", "aud", "auditor")
        for scope, name in (
            ("team", "red"),
            ("team", "blue"),
            ("each", "red"),
            ("analyst", "otto"),
        ):
            limited(made, scope, name)
        yield made


def limited(server: RolesServer, scope: str, name: str) -> None:
    body = {**LIMIT, "scope": scope, "name": name, "part": "0.01"}
    server.done("olga", "/datasets/census/limits", body, "limit_set")


def spend(server: RolesServer) -> None:
    for name in ("ana", "ben", "otto"):
        server.granted("census", name)


def label_of(alert: dict[str, Any]) -> str:
    named = (alert.get(field) for field in ("approval", "scope", "name", "analyst"))
    return " ".join(each for each in named if each)


class Alerts(threading.Thread):
    """Reads the alerts that somebody is sent, until the dataset itself has one."""

    def __init__(self, server: RolesServer, name: str, **query: str) -> None:
        super().__init__()
        self.server, self.caller, self.query = server, name, query
        self.connected = threading.Event()
        self.found: list[str] = []
        self.start()
        assert self.connected.wait(PATIENCE_S)

    def run(self) -> None:
        url, headers, kind = f"{self.server.url}/events", self.server.auth_headers(self.caller), ""
        with httpx.stream(
            "GET", url, params=self.query, headers=headers, timeout=PATIENCE_S, trust_env=False
        ) as answer:
            for line in answer.iter_lines():
                self.connected.set()
                field, _, value = line.partition(": ")
                kind = value if field == "event" else kind
                if field == "data" and kind == "alert":
                    alert = json.loads(value)
                    if not {"scope", "approval"} & alert.keys():
                        return
                    self.found.append(label_of(alert))


def alerts_until_the_end(server: RolesServer, readers: dict[str, Alerts]) -> dict[str, set[str]]:
    """Have the dataset itself cross something, and return what each has read until then."""
    amend = {**amending(server.clock, "census", alert_at=["0.001"]), "by": "olga"}
    server.done("olga", "/datasets/census/amend", amend, "amended")
    for reader in readers.values():
        reader.join(PATIENCE_S)
        assert not reader.is_alive()
    return {name: set(reader.found) for name, reader in readers.items()}


def test_each_caller_receives_live_alerts_of_their_own_limits(server: RolesServer) -> None:
    readers = {name: Alerts(server, name) for name in NAMES}
    spend(server)
    assert alerts_until_the_end(server, readers) == VISIBLE_ALERTS
    assert all(len(reader.found) == len(set(reader.found)) for reader in readers.values())


def test_lowering_a_limit_alerts_the_team_or_analyst_under_it(server: RolesServer) -> None:
    for scope, name in (("team", "red"), ("analyst", "otto")):
        server.done(
            "olga",
            "/datasets/census/limits",
            {**LIMIT, "scope": scope, "name": name, "part": "0.5"},
            "limit_set",
        )
    spend(server)
    readers = {name: Alerts(server, name) for name in NAMES}
    limited(server, "team", "red")
    limited(server, "analyst", "otto")
    found = alerts_until_the_end(server, readers)
    assert found["olga"] == found["root"] == {"team red", "analyst otto"}
    assert (found["ana"], found["otto"], found["eng"]) == ({"team red"}, {"analyst otto"}, set())


def test_each_caller_receives_past_alerts_of_their_own_limits(server: RolesServer) -> None:
    spend(server)
    readers = {name: Alerts(server, name, crossed="true") for name in NAMES}
    found = alerts_until_the_end(server, readers)
    # Whose use of a default it is, is known of oneself alone.
    assert found["olga"] == found["root"] == {"team red", "team blue", "analyst otto"}
    assert {name: found[name] for name in ("ana", "ben", "otto", "eng")} == {
        name: VISIBLE_ALERTS[name] for name in ("ana", "ben", "otto", "eng")
    }


def test_a_member_who_leaves_a_team_stops_receiving_its_alerts(server: RolesServer) -> None:
    server.enrol("census", "ben", "analyst", team="blue")
    readers = {name: Alerts(server, name) for name in ("ben", "otto")}
    spend(server)
    assert alerts_until_the_end(server, readers) == {
        "ben": {"team blue"},
        "otto": {"team blue", "analyst otto"},
    }


def test_each_caller_reads_in_an_amendment_the_limits_whose_alerts_they_receive(
    server: RolesServer,
) -> None:
    spend(server)
    amend = {**amending(server.clock, "census", alert_at=["0.001"]), "by": "olga"}
    reply = server.done("olga", "/datasets/census/amend", amend, "amended")
    assert {label_of(each) for each in reply["reached"]} == ALL_ALERTS
    for name in NAMES:
        page = server.see(name, f"/datasets/census/requests/{amend['request_id']}", analyst="olga")
        assert page.status_code == 200, page.text
        reached = page.json().get("reached", [])
        assert {label_of(each) for each in reached} == VISIBLE_ALERTS[name], name
        assert ("hash" in page.json()) == (VISIBLE_ALERTS[name] == ALL_ALERTS)
