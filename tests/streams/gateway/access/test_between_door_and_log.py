"""What happens between a door's look and the log's word, and while somebody reads."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import httpx
import msgspec
import pytest

from accountant.partition.decide import decide as decide_record
from accountant.partition.draft import Draft
from accountant.records import decode_decision
from accountant.records.decided import Encoded
from accountant.records.inputs import Input
from accountant.times import from_iso
from streams.embedded.ledger_file import numbered_decisions
from streams.gateway.access.pages import page_of
from streams.gateway.access.sight import Standing
from tests.streams.gateway.access.roles_door import RolesDoor, at, setting
from tests.streams.gateway.access.test_reading_matrix import label
from tests.streams.gateway.door import TestClock, amending, eventually, opening, request

RULES_3 = Path(__file__).parents[3] / "before" / "ledger_of_rules_3.sqlite"


class Slow:
    """Decides as ever, but holds up each record until it is let go on, while it is on."""

    def __init__(self) -> None:
        self.going, self.reached = threading.Event(), threading.Event()
        self.going.set()
        self.late_ms = 0

    def __call__(self, draft: Draft, record: Input, clock: int) -> Encoded:
        self.reached.set()
        assert self.going.wait(30)
        return decide_record(draft, _later(record, self.late_ms), clock + self.late_ms)


def _later(record: Input, ms: int) -> Input:
    later = record.append_time + ms
    return msgspec.structs.replace(record, append_time=later) if ms else record


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def door(tmp_path: Path, slow: Slow) -> Iterator[RolesDoor]:
    with RolesDoor(tmp_path, decide=slow) as made:
        made.open_for_olga("census", access="members")
        made.enrol("census", "ana", "analyst")
        yield made


def waiting(door: RolesDoor) -> float:
    return sum(lag.records for lag in door.service.live_ledgers.snapshot().lags)


def test_a_member_removed_between_door_and_log_gets_nothing_and_learns_nothing(
    door: RolesDoor, slow: Slow
) -> None:
    before, _ = door.kept()
    ask = request(door.clock, analyst="ana")
    with ThreadPoolExecutor(2) as pool:
        slow.going.clear()
        slow.reached.clear()
        removal = setting("olga", "census", "ana")
        removed = pool.submit(door.send, "olga", "/datasets/census/members", removal)
        assert slow.reached.wait(20)
        asked = pool.submit(door.send, "ana", "/requests", ask)
        # Both are past the door; the log takes them in their order.
        eventually(lambda: waiting(door) >= 1)
        slow.going.set()
        assert removed.result().json()["outcome"] == "member_removed"
        answer = asked.result()
    assert answer.status_code == 403, answer.text
    assert "totals" not in answer.text
    after, _ = door.kept()
    assert after == before + 2
    (last,) = asyncio.run(door.service.read_log(0, after, 1))
    decision = decode_decision(last)
    assert (decision.outcome, decision.reason) == ("refused", "not_permitted")


def test_the_log_has_the_last_word_on_whose_time_is_over(door: RolesDoor, slow: Slow) -> None:
    door.enrol("census", "ana", "analyst", until=at(seconds=5))
    door.granted("census", "ana")
    slow.late_ms = 6_000  # by the log's clock it is over, by the door's it is not
    answer = door.send("ana", "/requests", request(door.clock, analyst="ana"))
    assert (answer.status_code, answer.json()["reason"]) == (200, "not_permitted")
    assert answer.json()["granted"] is False


def test_a_membership_ends_at_its_moment(door: RolesDoor) -> None:
    door.enrol("census", "ana", "analyst", until=at(seconds=5))
    door.clock.pass_(seconds=4.999)  # type: ignore[attr-defined]
    door.granted("census", "ana")
    door.clock.pass_(seconds=0.001)  # type: ignore[attr-defined]
    before = door.kept()
    for path in ("/datasets/census", "/datasets/census/requests", "/datasets/census/members"):
        assert door.see("ana", path).status_code == 404
    ask = request(door.clock, analyst="ana")
    assert door.send("ana", "/requests", ask).status_code == 403
    assert door.kept() == before


def test_an_owner_who_leaves_is_told_that_it_was_done(door: RolesDoor) -> None:
    door.enrol("census", "ben", "owner")
    leaving = door.send("olga", "/datasets/census/members", setting("olga", "census", "olga"))
    assert (leaving.status_code, leaving.json()["outcome"]) == (200, "member_removed")
    assert door.see("olga", "/datasets/census").status_code == 404


class Reader(threading.Thread):
    """Reads the events of somebody until one of a dataset comes."""

    def __init__(self, door: RolesDoor, name: str, *, until: str) -> None:
        super().__init__()
        self.door, self.who, self.until = door, name, until
        self.connected = threading.Event()
        self.found: list[tuple[str, str]] = []
        self.start()
        assert self.connected.wait(20)

    def run(self) -> None:
        url, kind = f"{self.door.url}/events", ""
        headers = self.door.shown(self.who)
        with httpx.stream("GET", url, headers=headers, timeout=60, trust_env=False) as answer:
            for line in answer.iter_lines():
                self.connected.set()
                field, _, value = line.partition(": ")
                kind = value if field == "event" else kind
                if field == "data":
                    told: dict[str, Any] = json.loads(value)
                    what = label(told) if kind == "decision" else "alert"
                    self.found.append((told["dataset"], what))
                    if told["dataset"] == self.until and what == "amended":
                        return


def test_the_stream_of_who_is_removed_is_silent_at_once(door: RolesDoor) -> None:
    door.open_for_olga("other", access="anyone")
    door.open_for_olga("shared", access="members", visibility="members")
    for dataset in ("census", "shared"):
        door.enrol(dataset, "ana", "analyst")
        door.enrol(dataset, "ben", "analyst")
    reader = Reader(door, "ana", until="other")
    for removed in (False, True):
        if removed:
            door.enrol("shared", "ana")
        door.granted("census", "ana")
        door.granted("census", "ben")
        door.granted("shared", "ben")
    amend = {**amending(door.clock, "other", most_per_request="0.5"), "by": "olga"}
    door.done("olga", "/datasets/other/amend", amend, "amended")
    reader.join(20)
    assert reader.found == [
        ("census", "ana"),
        ("census", "alert"),
        ("shared", "ben"),
        ("shared", "alert"),
        ("census", "ana"),
        ("other", "amended"),
    ]


def test_the_way_out_of_anyone_is_silent_at_once_too(door: RolesDoor) -> None:
    door.open_for_olga("open", access="anyone")
    assert door.see("zoe", "/datasets/open").status_code == 200
    amend = {**amending(door.clock, "open", access="members"), "by": "olga"}
    door.done("olga", "/datasets/open/amend", amend, "amended")
    assert door.see("zoe", "/datasets/open").status_code == 404
    assert door.see("zoe", "/datasets").json() == []


def test_a_page_looks_at_so_many_decisions_and_goes_on(door: RolesDoor) -> None:
    door.enrol("census", "ben", "analyst")
    for _ in range(30):
        door.granted("census", "ben")
    mine = door.granted("census", "ana")
    own = Standing("ana", sees_all=False, sees_requests=False)

    def page(after: int, most: int, at_most: int) -> tuple[list[str], int]:
        found = page_of(door.service, "census", own, after=after, most=most, most_looked_at=at_most)
        told = json.loads(asyncio.run(found))
        return [label(each) for each in told["decisions"]], told["next"]

    assert page(3, 10, 20) == ([], 23)  # all of another, and not the end
    assert page(23, 10, 20) == (["ana"], 34)
    assert page(34, 10, 20) == ([], 34)  # the end
    answer = door.see("ana", "/datasets/census/requests", after=0, limit=2)
    assert [label(each) for each in answer.json()["decisions"]] == ["opened", "member ana"]
    assert answer.json()["next"] == 2
    last = door.see("ana", "/datasets/census/requests", after=2, limit=1).json()
    assert last["decisions"][0]["request"]["request_id"] == mine["request_id"]


def test_an_engine_is_not_told_what_another_s_id_came_to(door: RolesDoor) -> None:
    door.enrol("census", "eng", "engine")
    mine = door.granted("census", "ana")
    through = {**mine, "via": "eng"}
    answer = door.send("eng", "/requests", through)
    assert (answer.status_code, answer.json()["outcome"]) == (409, "conflict")
    assert not {"first", "hash"} & answer.json().keys()
    # Whose id it is, is told; so is an engine of its own.
    own = door.send("ana", "/requests", {**mine, "purpose": "another"})
    assert own.json()["first"]["outcome"] == "granted"
    body = door.granted("census", "ana", via="eng")
    again = door.send("eng", "/requests", body)
    assert again.json()["outcome"] == "repeated"
    assert again.json()["first"]["outcome"] == "granted"


def test_another_analyst_s_id_is_no_way_to_the_decision(door: RolesDoor) -> None:
    door.enrol("census", "ben", "analyst")
    mine = door.granted("census", "ana")
    answer = door.send("ben", "/requests", {**mine, "analyst": "ben"})
    assert answer.json()["outcome"] == "granted", "ids are each analyst's own"
    assert "first" not in answer.json()


def test_who_opens_a_name_by_a_clock_that_is_ahead_is_told_so(door: RolesDoor) -> None:
    clock = TestClock(door.clock.now() + 3_600_000)
    body = {**opening(clock, "new"), "by": "opie"}
    answer = door.send("opie", "/datasets", body)
    assert (answer.status_code, answer.json()["error"]) == (422, "issued_in_future")


def test_the_door_logs_what_matters_and_no_secret(
    door: RolesDoor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    door.done("opie", "/datasets", {**opening(door.clock, "own"), "by": "opie"}, "opened")
    body = setting("root", "census", "aud", "auditor", **{"as": "administrator"})
    door.done("root", "/datasets/census/members", body, "member_set")
    door.granted("census", "ana")
    for name in ("aud", "ana"):
        door.see(name, "/datasets/census/requests")
    assert "event='dataset_opened' dataset='own' by='opie' owners=['opie']" in caplog.text
    set_member = "event='member_set' dataset='census' by='root' member='aud'"
    assert set_member in caplog.text
    assert "administrator=True" in caplog.text
    read = [line for line in caplog.messages if "others_requests_read" in line]
    assert len(read) == 1
    assert "name='aud'" in read[0]
    for token in door.tokens.values():
        assert token not in caplog.text
    assert "epsilon" not in caplog.text


def test_what_is_not_permitted_is_counted(door: RolesDoor) -> None:
    series = 'privacy_http_not_permitted_total{action="request"}'
    door.send("ben", "/requests", request(door.clock, analyst="ben"))
    door.see("ben", "/metrics")
    lines = door.see("root", "/metrics").text.splitlines()
    assert f"{series} 1.0" in lines
    assert 'privacy_http_not_permitted_total{action="metrics"} 1.0' in lines
    assert 'privacy_http_not_permitted_total{action="close"} 0.0' in lines


def test_an_administrator_s_help_is_counted_and_printed_by_every_audit(door: RolesDoor) -> None:
    path = "/datasets/census/members"
    series = 'privacy_administrator_records_total{partition="0"}'
    assert f"{series} 0.0" in door.see("root", "/metrics").text.splitlines()
    help_ = {"as": "administrator", "reason": "olga is [away]"}
    door.done(
        "root", path, setting("root", "census", "ben", "owner", "auditor", **help_), "member_set"
    )
    door.done("root", path, setting("root", "census", "ben", **help_), "member_removed")
    assert f"{series} 2.0" in door.see("root", "/metrics").text.splitlines()
    copy = door.path.with_name("copy.db")
    with sqlite3.connect(door.path) as file, sqlite3.connect(copy) as other:
        file.backup(other)
    printed, told = (
        subprocess.run(
            [sys.executable, "-m", "streams.cli", "audit", str(copy), *more],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for more in ((), ("--json",))
    )
    assert "root has made ben owner and auditor on census: olga is [away]" in printed
    assert "root has removed ben from census: olga is [away]" in printed
    (part,) = json.loads(told)["partitions"]
    assert [each["roles"] for each in part["report"]["administered"]] == [["owner", "auditor"], []]


def test_what_has_no_owner_is_for_administrators_alone(tmp_path: Path) -> None:
    shutil.copy(RULES_3, tmp_path / "ledger.db")
    with apsw.Connection(str(tmp_path / "ledger.db")) as file:
        *_, (_, value) = numbered_decisions(file)
    clock = TestClock(from_iso(decode_decision(value).decided_at))
    with RolesDoor(tmp_path, clock=clock) as door:
        dataset = next(
            view["dataset"] for view in door.see("zoe", "/datasets").json() if not view["closed"]
        )
        before = door.kept()
        member = f"/datasets/{dataset}/members"
        for name in ("zoe", "opie"):
            assert door.send(name, member, setting(name, dataset, name, "owner")).status_code == 403
        assert door.kept() == before
        door.done("root", member, setting("root", dataset, "olga", "owner"), "member_set")
        # From here on it is hers.
        body = setting("root", dataset, "root", "owner")
        assert door.send("root", member, body).status_code == 403
        door.done("olga", member, setting("olga", dataset, "ana", "analyst"), "member_set")
