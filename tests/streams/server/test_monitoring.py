from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest

from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request
from tests.streams.waiting import eventually


def test_a_running_ledger_is_ready(server: LocalServer) -> None:
    assert server.http.get("/healthz").status_code == 200
    assert server.http.get("/readyz").json() == {"ready": True, "reasons": []}


@pytest.mark.parametrize("seconds", [900, -900])
def test_a_clock_jump_stops_decisions_until_it_is_corrected(
    server: LocalServer, clock: TestClock, seconds: int
) -> None:
    asked = request(clock)
    clock.jump(seconds=seconds)
    eventually(lambda: server.http.get("/readyz").status_code == 503)
    assert "clock_out_of_range" in server.http.get("/readyz").json()["reasons"][0]
    refused = server.post("/requests", asked)
    assert refused.status_code == 503
    assert "retry-after" in refused.headers
    assert "clock_out_of_range" in refused.json()["message"]
    assert server.http.get("/healthz").status_code == 200
    clock.jump(seconds=-seconds)
    eventually(lambda: server.http.get("/readyz").status_code == 200)
    assert server.post("/requests", asked).json()["outcome"] == "granted"


def test_a_clock_behind_the_log_decides_nothing(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.open()
    with LocalServer(file, TestClock(clock.now() - 600_000)) as server:
        eventually(lambda: server.http.get("/readyz").status_code == 503)
        assert "clock_out_of_range" in server.http.get("/readyz").json()["reasons"][0]
        assert server.ask().status_code == 503


def test_a_server_fenced_by_another_owner_stops_and_reports_it(
    server: LocalServer, file: Path
) -> None:
    before = server.last_sequence()
    thief = apsw.Connection(str(file))
    thief.execute("UPDATE owner SET epoch = epoch + 1")
    assert server.ask().status_code == 503
    eventually(lambda: "fenced" in str(server.http.get("/readyz").json()["reasons"]))
    assert server.ask().status_code == 503
    last = thief.execute("SELECT max(sequence) FROM decisions").get
    assert last == before
    assert server.http.get("/datasets").status_code == 503
    assert server.metric('privacy_partition_ready{partition="0"}') == "0.0"
    assert server.metric('privacy_partition_fencings_total{partition="0"}') == "1.0"
    assert server.metric('privacy_filter_spent_ratio{dataset="census"}') is None


def test_requests_above_the_queue_limit_get_503(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock, Settings(port=0, most_waiting=1)) as server:
        server.open()
        blocker = apsw.Connection(str(file))
        blocker.execute("BEGIN IMMEDIATE")
        statuses: list[int] = []

        def send() -> None:
            statuses.append(server.ask().status_code)

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        eventually(lambda: 503 in statuses)
        blocker.execute("ROLLBACK")
        for thread in threads:
            thread.join()
        assert server.ask().status_code in {200, 503}


def test_metrics_show_budgets_odometers_and_decisions(server: LocalServer) -> None:
    server.open("adult", filter="zcdp_tight", delta="1e-6", horizon="P365D")
    server.ask()
    server.ask(claim={"type": "pure", "epsilon": "5"})
    server.ask(dataset="made-up")
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
    assert {series: server.metric(series) for series in values} == values
    assert server.metric('privacy_odometer_epsilon{dataset="adult",odometer="one_sided_mixture"}')
    assert server.metric('privacy_filter_horizon_seconds{dataset="census"}') is None
    assert "made-up" not in server.http.get("/metrics").text


def test_metrics_are_openmetrics_if_the_caller_accepts_it(server: LocalServer) -> None:
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    response = server.http.get("/metrics", headers=accept)
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


def test_metrics_name_their_charset_once(server: LocalServer) -> None:
    response = server.http.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
