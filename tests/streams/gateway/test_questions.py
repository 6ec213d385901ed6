"""Questions to a ledger in a file: over HTTP, by the client and the command, after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from accountant.questions.schema import decode_schema
from accountant.records.previews import check_preview
from streams.client import Accountant, PolicyDiffers
from streams.embedded.file_reader import FileReader
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, opening

SCHEMA: dict[str, Any] = {
    "source": {"kind": "parquet", "name": "census"},
    "columns": [{"type": "number", "name": "age", "lower": "0", "upper": "120"}],
    "neighbours": "add_remove",
}
COUNT = {"question": {"ask": "count", "where": "age > 65"}, "noise": {"epsilon": "0.25"}}
WRONG = COUNT | {"question": {"ask": "sum", "column": "wages"}}


def open_with_schema(server: LocalServer, dataset: str = "survey") -> None:
    response = server.post("/datasets", opening(server.clock, dataset) | {"schema": SCHEMA})
    assert response.json()["outcome"] == "opened", response.text


def ask(server: LocalServer, asked: dict[str, Any] = COUNT, dataset: str = "survey") -> Any:
    head = {"version": 1, "type": "request", "request_id": new_id(server.clock)}
    body = head | {"analyst": "ana", "dataset": dataset} | asked
    response = server.post("/requests", body)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_question_is_granted_by_its_derived_claim(server: LocalServer) -> None:
    open_with_schema(server)
    assert server.http.get("/datasets/survey").json()["schema"] == SCHEMA
    assert "schema" not in server.http.get("/datasets/census").json()
    decision = ask(server)
    assert decision["granted"]
    assert decision["derived"] == {"claim": {"type": "pure", "epsilon": "0.25"}}
    refused = ask(server, WRONG)
    assert (refused["reason"], refused["error"]["field"]) == (
        "question_not_allowed",
        "question.column",
    )
    assert ask(server, dataset="census")["reason"] == "no_schema"


def test_a_schema_survives_a_restart(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        open_with_schema(server)
        assert ask(server)["granted"]
    with LocalServer(file, clock) as server:
        assert server.http.get("/datasets/survey").json()["schema"] == SCHEMA
        assert ask(server)["granted"]
        assert ask(server, WRONG)["reason"] == "question_not_allowed"


@pytest.mark.parametrize("whose", [{}, {"analyst": "ana"}])
def test_a_preview_takes_a_question(server: LocalServer, whose: dict[str, str]) -> None:
    open_with_schema(server)
    path = "/datasets/survey/preview"
    shown = server.post(path, COUNT | whose).json()
    assert (shown["granted"], shown["more"]) == (True, 3)
    assert shown["derived"] == {"claim": {"type": "pure", "epsilon": "0.25"}}
    refused = server.post(path, WRONG | whose).json()
    assert (refused["granted"], refused["reason"], refused["more"]) == (
        False,
        "question_not_allowed",
        0,
    )
    assert refused["error"]["field"] == "question.column"
    missing = server.post("/datasets/census/preview", COUNT | whose).json()
    assert missing["reason"] == "no_schema"
    both = server.post(path, COUNT | {"unit": "person"})
    assert (both.status_code, both.json()["field"]) == (422, "unit")


SESSION = {
    "question": {"ask": "count"},
    "noise": {"epsilon": "0.25", "law": "laplace_reduction"},
    "reserve": {"until": "PT1H"},
}
STOP = {"stop": {"error": "50"}}


@pytest.mark.parametrize("whose", [{}, {"analyst": "ana"}])
async def test_accuracy_first_needs_a_curator(
    server: LocalServer, file: Path, clock: TestClock, whose: dict[str, str]
) -> None:
    open_with_schema(server)
    preview_request = check_preview(msgspec.json.encode(SESSION | whose))

    async def reasons() -> list[str | None]:
        """Return the reason in a preview of the server, and in one of a reader of its file."""
        reader = FileReader(file, clock)
        read = await reader.preview("survey", preview_request)
        await reader.close()
        assert read is not None
        shown = server.post("/datasets/survey/preview", SESSION | whose).json()
        return [shown["reason"], read.reason]

    assert await reasons() == ["question_not_allowed", "question_not_allowed"]
    refused = ask(server, SESSION | STOP)
    assert (refused["reason"], refused["error"]["field"]) == ("question_not_allowed", "noise.law")
    body = {"version": 1, "type": "member", "request_id": new_id(clock), "dataset": "survey"}
    body |= {"by": "owner", "member": "curator", "roles": ["curator"]}
    assert server.post("/datasets/survey/members", body).json()["outcome"] == "member_set"
    assert await reasons() == [None, None]
    assert ask(server, SESSION | STOP)["outcome"] == "reserved"


def test_a_client_opens_with_a_schema(file: Path, clock: TestClock) -> None:
    schema = decode_schema(msgspec.json.encode(SCHEMA))
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        for given in (SCHEMA, schema):
            decision = ledger.as_owner("owner").open(
                "survey", {"epsilon": "1", "delta": "1e-6"}, schema=given
            )
            assert str(decision.outcome) in {"opened", "refused"}
        view = ledger.dataset("survey")
        assert view is not None
        assert view.schema == schema
        wider = SCHEMA | {"unit": {"column": "person", "rows": 2}}
        with pytest.raises(PolicyDiffers, match="schema"):
            ledger.as_owner("owner").open("survey", {"epsilon": "1", "delta": "1e-6"}, schema=wider)
