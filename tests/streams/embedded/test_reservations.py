"""Reservations in a ledger's file: over HTTP, through restarts at each step, past deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from accountant.replay.audit import audit
from accountant.times import uuid7
from streams.embedded.ledger_file import reader
from streams.pages import PAGES
from tests.streams.embedded.reservation_server import MINUTE, NOON, Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "ledger.db", pages=PAGES).start()
    policy = {"filter": "zcdp", "rho": "0.1", "delta": "1e-6"}
    running.post("/datasets", type="open", dataset="census", by="olga", policy=policy)
    yield running
    running.stop()
    with reader(running.file) as db:
        log = [value for (value,) in db.execute("SELECT value FROM decisions ORDER BY sequence")]
    assert audit(log).ok


def test_a_session_settles_at_what_it_showed_after_a_restart_at_each_step(server: Server) -> None:
    grant = server.reserve()
    assert (grant["outcome"], grant["granted"], grant["cost"]["rho"]) == (
        "reserved",
        False,
        "0.00125",
    )
    assert server.dataset()["reserved"]["rho"] == "0.00125"
    server.restart()
    assert server.dataset()["open_reservations"] == 1
    assert server.step("begin", grant)["outcome"] == "begun"
    server.restart()
    settled = server.step("settle", grant, shown="2500")
    assert (settled["outcome"], settled["reservation"]["returned"]["rho"]) == ("settled", "0.00105")
    server.restart()
    assert server.step("settle", grant)["reason"] == "not_open"
    after = server.dataset()
    assert (after["totals"]["rho"], after["reserved"], after["open_reservations"]) == (
        "0.0002",
        {},
        0,
    )
    assert server.get("/datasets/census/usage")[0]["spent"] == "0.0002"


def test_what_never_began_comes_back_whole(server: Server) -> None:
    grant = server.reserve()
    server.restart()
    assert server.step("void", grant)["outcome"] == "voided"
    assert server.dataset()["totals"]["rho"] == "0"
    assert server.step("begin", grant)["reason"] == "not_open"


def test_after_its_deadline_nothing_begins_and_it_can_still_be_voided_once(server: Server) -> None:
    grant = server.reserve("PT30M")
    server.clock.pass_(30 * MINUTE)
    server.restart()
    assert server.step("begin", grant)["reason"] == "lapsed"
    assert server.step("settle", grant)["reason"] == "lapsed"
    assert server.dataset()["totals"]["rho"] == "0.00125"
    assert server.step("void", grant)["outcome"] == "voided"
    assert server.dataset()["totals"]["rho"] == "0"


def test_begun_and_lapsed_is_charged_in_full_for_ever(server: Server) -> None:
    grant = server.reserve("PT30M")
    server.step("begin", grant)
    server.clock.pass_(30 * MINUTE)
    server.restart()
    assert server.step("settle", grant, shown="2500")["reason"] == "not_open"
    after = server.dataset()
    assert (after["totals"]["rho"], after["open_reservations"]) == ("0.00125", 0)


def test_beyond_its_maximum_it_suspends_the_dataset_until_an_owner_resolves(server: Server) -> None:
    grant = server.reserve()
    server.step("begin", grant)
    refused = server.step("settle", grant, shown="399")
    assert (refused["reason"], refused["reservation"]["stage"], refused["held"]["broken"]) == (
        "beyond_maximum",
        "broken",
        1,
    )
    server.restart()
    assert server.reserve()["reason"] == "suspended"
    page = server._client.get("/pages/datasets/census").text
    assert "A reservation released more than its maximum, so no guarantee holds." in page
    assert '<strong>0 %</strong> is spent, 1.3 % is <a href="#reservations">reserved</a>' in page
    assert "released beyond its maximum: an owner has to resolve it (it showed 399)" in page
    named = {"dataset": "census", "by": "olga", "grant": grant["hash"]}
    resolved = server.post(
        "/datasets/census/resolve", type="resolve", mistaken="a mistyped level", **named
    )
    assert (resolved["outcome"], resolved["guarantee"]) == ("resolved", "explained")
    server.restart()
    assert server.reserve()["outcome"] == "reserved"
    assert server.dataset()["guarantee"] == "explained"
    page = server._client.get("/pages/datasets/census").text
    assert "an owner has explained a settlement above a maximum as a mistake" in page


def test_a_population_has_no_joint_guarantee_beside_a_claim_that_was_false(server: Server) -> None:
    policy = {"epsilon": "1", "delta": "1e-6", "population": "people"}
    server.post("/datasets", type="open", dataset="one", by="olga", policy=policy)
    server.post("/datasets", type="open", dataset="two", by="olga", policy=policy)
    assert "why" not in server.get("/datasets/two")["joint_guarantee"]
    grant = server.reserve(dataset="one")
    server.step("begin", grant, dataset="one")
    server.step("settle", grant, dataset="one", shown="399")
    why = server.get("/datasets/two")["joint_guarantee"]["why"]
    assert why == "a reservation on one released more than its maximum"


def test_a_retry_with_the_same_bytes_moves_nothing(server: Server) -> None:
    grant = server.reserve()
    body = {
        "version": 1,
        "type": "begin",
        "request_id": uuid7(NOON, b"\1" * 10),
        "analyst": "ana",
        "dataset": "census",
        "grant": grant["hash"],
    }
    path = "/datasets/census/reservations/begin"
    assert server.send(path, body)["outcome"] == "begun"
    server.restart()
    again = server.send(path, body)
    assert (again["outcome"], again["first"]["outcome"]) == ("repeated", "begun")
