from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest

from streams.settings import Settings
from tests.streams.gateway.door import Door, TestClock, eventually, request


def test_a_ledger_that_decides_is_ready(door: Door) -> None:
    assert door.http.get("/healthz").status_code == 200
    assert door.http.get("/readyz").json() == {"ready": True, "reasons": []}


@pytest.mark.parametrize("seconds", [900, -900])
def test_a_clock_that_jumps_stops_decisions_until_it_is_right_again(
    door: Door, clock: TestClock, seconds: int
) -> None:
    asked = request(clock)
    clock.jump(seconds=seconds)
    eventually(lambda: door.http.get("/readyz").status_code == 503)
    assert "clock_out_of_range" in door.http.get("/readyz").json()["reasons"][0]
    refused = door.post("/requests", asked)
    assert refused.status_code == 503
    assert "retry-after" in refused.headers
    assert "clock_out_of_range" in refused.json()["message"]
    assert door.http.get("/healthz").status_code == 200
    clock.jump(seconds=-seconds)
    eventually(lambda: door.http.get("/readyz").status_code == 200)
    assert door.post("/requests", asked).json()["outcome"] == "granted"


def test_a_clock_behind_the_log_decides_nothing(file: Path, clock: TestClock) -> None:
    with Door(file, clock) as door:
        door.open()
    with Door(file, TestClock(clock.now() - 600_000)) as door:
        eventually(lambda: door.http.get("/readyz").status_code == 503)
        assert "clock_out_of_range" in door.http.get("/readyz").json()["reasons"][0]
        assert door.ask().status_code == 503


def test_another_owner_of_the_file_ends_decisions_and_says_so(door: Door, file: Path) -> None:
    before = door.last_sequence()
    thief = apsw.Connection(str(file))
    thief.execute("UPDATE owner SET epoch = epoch + 1")
    assert door.ask().status_code == 503
    eventually(lambda: "fenced" in str(door.http.get("/readyz").json()["reasons"]))
    assert door.ask().status_code == 503
    last = thief.execute("SELECT max(sequence) FROM decisions").get
    assert last == before
    assert door.http.get("/datasets").status_code == 503
    assert door.metric('privacy_partition_ready{partition="0"}') == "0.0"
    assert door.metric('privacy_partition_fencings_total{partition="0"}') == "1.0"
    assert door.metric('privacy_filter_spent_ratio{dataset="census"}') is None


def test_too_many_waiting_are_sent_away(file: Path, clock: TestClock) -> None:
    with Door(file, clock, Settings(port=0, most_waiting=1)) as door:
        door.open()
        blocker = apsw.Connection(str(file))
        blocker.execute("BEGIN IMMEDIATE")
        statuses: list[int] = []

        def send() -> None:
            statuses.append(door.ask().status_code)

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        eventually(lambda: 503 in statuses)
        blocker.execute("ROLLBACK")
        for thread in threads:
            thread.join()
        assert door.ask().status_code in {200, 503}


def test_metrics_show_budgets_odometers_and_decisions(door: Door) -> None:
    door.open("adult", filter="zcdp_tight", delta="1e-6", horizon="P365D")
    door.ask()
    door.ask(claim={"type": "pure", "epsilon": "5"})
    door.ask(dataset="made-up")
    values = {
        'privacy_filter_left{dataset="census",unit="epsilon"}': "0.9",
        'privacy_filter_budget{dataset="census",unit="epsilon"}': "1.0",
        'privacy_filter_exhausted{dataset="census"}': "0.0",
        'privacy_filter_horizon_seconds{dataset="adult"}': "31536000.0",
        'privacy_dataset_generation{dataset="census"}': "1.0",
        'privacy_requests_total{dataset="census",outcome="granted",reason=""}': "1.0",
        'privacy_requests_total{dataset="census",outcome="refused",reason="exhausted"}': "1.0",
        'privacy_requests_total{dataset="",outcome="refused",reason="unknown_dataset"}': "1.0",
        'privacy_partition_ready{partition="0"}': "1.0",
        'privacy_partition_sequence{partition="0"}': "5.0",
        'privacy_partition_branch{partition="0"}': "0.0",
        'privacy_partition_remembered_ids{partition="0"}': "5.0",
        'privacy_decision_duration_seconds_count{partition="0"}': "5.0",
        'privacy_commit_duration_seconds_count{partition="0"}': "5.0",
    }
    assert {series: door.metric(series) for series in values} == values
    assert door.metric('privacy_odometer_epsilon{dataset="adult",odometer="one_sided_mixture"}')
    assert door.metric('privacy_filter_horizon_seconds{dataset="census"}') is None
    assert "made-up" not in door.http.get("/metrics").text


def test_metrics_speak_openmetrics_to_who_asks_for_it(door: Door) -> None:
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    response = door.http.get("/metrics", headers=accept)
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


def test_metrics_name_their_charset_once(door: Door) -> None:
    response = door.http.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
