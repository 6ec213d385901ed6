"""Previews over HTTP and by every service that reads a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accountant.advice.preview import Preview
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.records.previews import PreviewRequest
from streams.client import Accountant, NoSuchLedger
from streams.client.http.service import HttpService
from streams.service.ledger_service import Service
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import data_settings, opening_with_schema
from tests.streams.gateway.local_server import LocalServer

SMALL = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person", "neighbours": "add_remove"}
LARGE = SMALL | {"claim": {"type": "pure", "epsilon": "2"}}


def test_a_preview_shows_the_decision_and_writes_nothing(server: LocalServer) -> None:
    before = server.http.get("/datasets/census").json()
    shown = server.post("/datasets/census/preview", SMALL)
    assert shown.status_code == 200
    assert shown.json() == {
        "dataset": "census",
        "sequence": 1,
        "granted": True,
        "reason": None,
        "cost": {"epsilon": "0.1", "delta": "0"},
        "asked": None,
        "left": {"epsilon": "0.9", "delta": "0"},
        "fits": None,
        "more": 9,
        "ends": None,
        "level": None,
        "left_at": [],
        "ends_basic": False,
        "halts": False,
    }
    assert server.http.get("/datasets/census").json() == before
    assert server.ask().json()["left"] == shown.json()["left"]
    assert server.post("/datasets/census/preview", SMALL).json()["more"] == 8


def test_a_refused_preview_shows_what_would_fit(server: LocalServer) -> None:
    shown = server.post("/datasets/census/preview", LARGE).json()
    assert (shown["granted"], shown["reason"], shown["more"]) == (False, "exhausted", 0)
    assert (shown["asked"], shown["fits"]) == ({"epsilon": "2", "delta": "0"}, "pure:1")


def test_a_preview_above_the_request_cap_is_refused(server: LocalServer) -> None:
    server.open("capped", most_per_request="0.25")
    shown = server.post("/datasets/capped/preview", LARGE).json()
    assert (shown["reason"], shown["fits"]) == ("above_cap", "pure:0.25")


def test_a_preview_says_that_a_request_would_wait(server: LocalServer) -> None:
    server.open("plans", approve_above="0.1", most_per_request="0.5")
    body = {**SMALL, "claim": {"type": "pure", "epsilon": "0.11"}}
    shown = server.post("/datasets/plans/preview", body).json()
    assert (shown["granted"], shown["needs_approval"]) == (True, True)
    assert (shown["cost"]["epsilon"], shown["left"]["epsilon"]) == ("0.11", "0.89")
    assert "needs_approval" not in server.post("/datasets/plans/preview", SMALL).json()
    refused = server.post("/datasets/plans/preview", LARGE).json()
    assert (refused["reason"], "needs_approval" in refused) == ("above_cap", False)
    question = {"question": {"ask": "count"}, "noise": {"epsilon": "0.3"}}
    server.post("/datasets", opening_with_schema(server.clock, "ages", approve_above="0.2"))
    assert server.post("/datasets/ages/preview", question).json()["needs_approval"]


def test_errors_and_prices_before_a_question_are_the_same_for_any_file(
    tmp_path: Path, clock: TestClock
) -> None:
    """They follow from schema, question and noise: a server with other rows says the same."""
    question = {
        "ask": "several",
        "statistics": [{"ask": "count"}, {"ask": "mean", "column": "age"}],
    }
    body = {"question": question, "noise": {"epsilon": "0.1"}, "guess": 1000}

    def preview_of(rows: int) -> dict[str, Any]:
        directory = tmp_path / str(rows)
        directory.mkdir()
        settings = Settings(port=0, **data_settings(directory, rows=rows))
        with LocalServer(directory / "ledger.db", clock, settings) as server:
            server.post("/datasets", opening_with_schema(clock, "ages"))
            found: dict[str, Any] = server.post("/datasets/ages/preview", body).json()
            return found

    found = preview_of(5)
    assert found == preview_of(400)
    assert found["expected_errors"] == [
        {"statistic": "count", "error": "60"},
        {"statistic": "mean(age)", "error": "9.91", "is_largest": True},
    ]
    prices = [(each["noise"], each["fits"]) for each in found["prices"]]
    assert prices == [
        ("epsilon: 0.025", 40),
        ("epsilon: 0.05", 20),
        ("epsilon: 0.1", 10),
        ("epsilon: 0.2", 5),
        ("epsilon: 0.4", 2),
    ]
    assert (found["more"], found["left"]["epsilon"]) == (9, "0.9")


def test_a_preview_of_an_error_names_the_law_that_the_policy_takes(server: LocalServer) -> None:
    policy = {"filter": "zcdp_tight", "delta": "1e-6"}
    server.post("/datasets", opening_with_schema(server.clock, "ages", **policy))
    body = {"question": {"ask": "count"}, "noise": {"error": "150", "confidence": "0.95"}}
    shown = server.post("/datasets/ages/preview", body).json()
    assert shown["derived"]["claim"] == {"type": "zcdp", "rho": "0.0000847983"}
    assert shown["prices"][2]["noise"] == "error: 150 at 0.95, discrete_gaussian"
    assert shown["prices"][2]["cost"] == shown["cost"]


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("census", SMALL | {"guess": 5}, 422, "guess"),
        ("nowhere", SMALL, 404, "dataset"),
        ("census", SMALL | {"analyst": "a b"}, 422, "analyst"),
        ("census", {"claim": SMALL["claim"], "unit": "person"}, 422, "neighbours"),
        ("census", SMALL | {"claim": {"type": "pure", "epsilon": "-1"}}, 422, "claim.epsilon"),
        ("census", [], 422, "body"),
        ("census", SMALL | {"unit": "x" * 70_000}, 413, "body"),
    ],
)
def test_an_invalid_preview_gets_the_errors_of_a_request(
    server: LocalServer, path: str, body: Any, status: int, field: str
) -> None:
    result = server.post(f"/datasets/{path}/preview", body)
    assert (result.status_code, result.json()["field"]) == (status, field)


def test_a_preview_accepts_only_valid_json(server: LocalServer) -> None:
    text = server.http.post(
        "/datasets/census/preview", content=b"{", headers={"Content-Type": "a/b"}
    )
    assert text.status_code == 415
    broken = {"Content-Type": "application/json"}
    cut = server.http.post("/datasets/census/preview", content=b"{", headers=broken)
    assert (cut.status_code, cut.json()["error"]) == (400, "undecodable")


async def shown_by(service: Service, dataset: str, claim: str) -> Preview | None:
    asked = PreviewRequest(parse_claim(claim), "person", "add_remove")
    return await service.preview(dataset, asked)


async def test_the_http_client_previews_as_the_ledger_does(server: LocalServer) -> None:
    remote = HttpService(server.url)
    try:
        server.open("plans", approve_above="0.1")
        waits = await shown_by(remote, "plans", "pure:0.2")
        assert waits == await shown_by(server.service, "plans", "pure:0.2")
        for claim in ("pure:0.1", "gaussian:sigma=1,sensitivity=1", "pure:3", "2*pure:0.3"):
            result = await shown_by(remote, "census", claim)
            assert result is not None
            assert result == await shown_by(server.service, "census", claim)
        assert await shown_by(remote, "nowhere", "pure:0.1") is None
        assert await shown_by(server.service, "nowhere", "pure:0.1") is None
        for service in (remote, server.service):
            with pytest.raises(RequestInvalid) as wrong:
                await service.preview("census", _broken())
            assert wrong.value.field == "claim.epsilon"
    finally:
        await remote.close()


def _broken() -> PreviewRequest:
    from accountant.claims import Pure

    return PreviewRequest(Pure("-1"), "person", "add_remove")


def test_a_preview_of_a_missing_ledger_file_raises(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'none.db'}", analyst="ana") as ledger:
        for _ in range(2):
            with pytest.raises(NoSuchLedger):
                ledger.cost("census", "pure:0.1")
