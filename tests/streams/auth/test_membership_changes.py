"""What is shown changes with the members, at once; and an id is no way around them."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import msgspec

from accountant.views.visibility import DatasetAccess
from streams.auth.decision_pages import page_of
from tests.patience import PATIENCE_S
from tests.streams.auth.roles_server import RolesServer, at
from tests.streams.auth.visible import label
from tests.streams.clock import TestClock
from tests.streams.gateway.records import amending, request


class Reader(threading.Thread):
    """Reads the events of somebody until one of a dataset comes."""

    def __init__(self, server: RolesServer, name: str, *, until: str) -> None:
        super().__init__()
        self.server, self.caller, self.until = server, name, until
        self.connected = threading.Event()
        self.found: list[tuple[str, str]] = []
        self.start()
        assert self.connected.wait(PATIENCE_S)

    def run(self) -> None:
        url, kind = f"{self.server.url}/events", ""
        headers = self.server.auth_headers(self.caller)
        with httpx.stream(
            "GET", url, headers=headers, timeout=PATIENCE_S, trust_env=False
        ) as answer:
            for line in answer.iter_lines():
                self.connected.set()
                field, _, value = line.partition(": ")
                kind = value if field == "event" else kind
                if field == "data":
                    result: dict[str, Any] = json.loads(value)
                    what = label(result) if kind == "decision" else "alert"
                    self.found.append((result.get("dataset", ""), what))
                    if self.found[-1][0] == self.until and what == "amended":
                        return


def test_the_event_stream_of_a_removed_member_stops_at_once(census: RolesServer) -> None:
    census.open_for_olga("other", access="anyone")
    census.open_for_olga("shared", access="members", visibility="members")
    for dataset in ("census", "shared"):
        census.enrol(dataset, "ana", "analyst")
        census.enrol(dataset, "ben", "analyst")
    reader = Reader(census, "ana", until="other")
    for removed in (False, True):
        if removed:
            census.enrol("shared", "ana")
        census.granted("census", "ana")
        census.granted("census", "ben")
        census.granted("shared", "ben")
    amend = {**amending(census.clock, "other", most_per_request="0.5"), "by": "olga"}
    census.done("olga", "/datasets/other/amend", amend, "amended")
    reader.join(PATIENCE_S)
    assert reader.found == [
        ("census", "ana"),
        ("census", "alert"),
        ("shared", "ben"),
        ("shared", "alert"),
        ("census", "ana"),
        ("other", "amended"),
    ]


def test_only_administrators_receive_events_without_a_dataset(census: RolesServer) -> None:
    census.open_for_olga("open", access="anyone")
    readers = {name: Reader(census, name, until="open") for name in ("root", "olga", "zoe")}
    census.service.submit_sync("requests", b"no JSON at all", 20)  # as only Kafka lets anybody do
    of_nobody = request(census.clock, dataset="nowhere", analyst="zoe")
    census.service.submit_sync("requests", msgspec.json.encode(of_nobody), 20)
    amend = {**amending(census.clock, "open", most_per_request="0.5"), "by": "olga"}
    census.done("olga", "/datasets/open/amend", amend, "amended")
    for reader in readers.values():
        reader.join(PATIENCE_S)
    assert readers["zoe"].found == readers["olga"].found == [("open", "amended")]
    assert readers["root"].found == [
        ("", "invalid"),
        ("nowhere", "zoe"),
        ("open", "amended"),
    ]


def test_closing_access_to_members_hides_the_dataset_at_once(census: RolesServer) -> None:
    census.open_for_olga("open", access="anyone")
    assert census.see("zoe", "/datasets/open").status_code == 200
    amend = {**amending(census.clock, "open", access="members"), "by": "olga"}
    census.done("olga", "/datasets/open/amend", amend, "amended")
    assert census.see("zoe", "/datasets/open").status_code == 404
    assert census.see("zoe", "/datasets").json() == []


def test_a_page_of_decisions_reads_a_bounded_number_and_continues(census: RolesServer) -> None:
    census.enrol("census", "ben", "analyst")
    for _ in range(30):
        census.granted("census", "ben")
    mine = census.granted("census", "ana")
    own = DatasetAccess("ana", sees_all=False, sees_requests=False)

    def page(after: int, most: int, at_most: int) -> tuple[list[str], int]:
        found = page_of(census.service, "census", own, after=after, maximum=most, max_read=at_most)
        result = json.loads(asyncio.run(found))
        return [label(each) for each in result["decisions"]], result["next"]

    assert page(3, 10, 20) == ([], 23)  # all of another, and not the end
    assert page(23, 10, 20) == (["ana"], 34)
    assert page(34, 10, 20) == ([], 34)  # the end
    answer = census.see("ana", "/datasets/census/requests", after=0, limit=2)
    assert [label(each) for each in answer.json()["decisions"]] == ["opened", "member ana"]
    assert answer.json()["next"] == 2
    last = census.see("ana", "/datasets/census/requests", after=2, limit=1).json()
    assert last["decisions"][0]["request"]["request_id"] == mine["request_id"]


def test_an_engine_cannot_learn_the_outcome_of_an_analysts_request_id(census: RolesServer) -> None:
    census.enrol("census", "eng", "engine")
    mine = census.granted("census", "ana")
    through = {**mine, "via": "eng"}
    answer = census.send("eng", "/requests", through)
    assert (answer.status_code, answer.json()["outcome"]) == (409, "conflict")
    assert not {"first", "hash"} & answer.json().keys()
    # The id's analyst gets the outcome, and so does their own engine.
    own = census.send("ana", "/requests", {**mine, "purpose": "another"})
    assert own.json()["first"]["outcome"] == "granted"
    body = census.granted("census", "ana", via="eng")
    again = census.send("eng", "/requests", body)
    assert again.json()["outcome"] == "repeated"
    assert again.json()["first"]["outcome"] == "granted"


def test_a_request_id_of_another_analyst_does_not_reveal_the_decision(census: RolesServer) -> None:
    census.enrol("census", "ben", "analyst")
    mine = census.granted("census", "ana")
    answer = census.send("ben", "/requests", {**mine, "analyst": "ben"})
    assert answer.json()["outcome"] == "granted", "ids are each analyst's own"
    assert "first" not in answer.json()


def test_setting_the_clock_back_does_not_restore_an_expired_membership(tmp_path: Path) -> None:
    clock = TestClock()
    with RolesServer(tmp_path, clock=clock) as server:
        server.open_for_olga("census", access="members")
        server.open_for_olga("other", access="members")
        server.enrol("census", "ana", "analyst", until=at(10))
        server.enrol("census", "eve", "auditor", until=at(10))
        server.enrol("other", "ben", "analyst")

        def shown() -> list[object]:
            asked = request(clock, dataset="census", analyst="ana")
            return [
                server.see("eve", "/datasets/census/requests").status_code,
                len(server.see("eve", "/datasets").json()),
                len(server.see("eve", "/me").json()["datasets"]),
                server.send("ana", "/requests", asked).status_code,
            ]

        assert shown() == [200, 1, 1, 200]
        clock.pass_(seconds=20)
        server.granted("other", "ben")  # the log says what time it is, by any of its datasets
        assert shown() == [404, 0, 0, 403]
        clock.jump(seconds=-60)
        assert shown() == [404, 0, 0, 403]
