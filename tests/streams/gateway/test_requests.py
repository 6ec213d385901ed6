"""GET /datasets/{dataset}/requests: a dataset's decisions, a page at a time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.client import Accountant, AsyncAccountant, Gone
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill, ledger_of
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request


def test_pages_of_decisions_end_with_an_empty_page(server: LocalServer) -> None:
    sent = [server.ask(claim={"type": "pure", "epsilon": "0.01"}) for _ in range(5)]
    shown, after, pages = [], 0, 0
    while found := server.http.get(f"/datasets/census/requests?limit=2&after={after}").json():
        pages += 1
        shown += found["decisions"]
        if not found["decisions"]:
            break
        after = found["next"]
    assert found == {"decisions": [], "next": 6}
    assert pages == 4
    assert [each["sequence"] for each in shown] == [1, 2, 3, 4, 5, 6]
    assert shown[0]["outcome"] == "opened"
    assert shown[1:] == [response.json() for response in sent]
    later = server.ask().json()
    assert server.http.get("/datasets/census/requests?after=6").json() == {
        "decisions": [later],
        "next": 7,
    }


def test_a_page_has_a_hundred_decisions_by_default(server: LocalServer) -> None:
    for _ in range(101):
        server.ask(claim={"type": "pure", "epsilon": "0.001"})
    page = server.http.get("/datasets/census/requests").json()
    assert (len(page["decisions"]), page["next"]) == (100, 100)
    whole = server.http.get("/datasets/census/requests?limit=1000").json()
    assert (len(whole["decisions"]), whole["next"]) == (102, 102)


def test_pages_omit_repeated_and_conflicting_requests(
    server: LocalServer, clock: TestClock
) -> None:
    body = request(clock)
    assert server.post("/requests", body).json()["outcome"] == "granted"
    assert server.post("/requests", body).json()["outcome"] == "repeated"
    assert server.post("/requests", body | {"purpose": "other"}).status_code == 409
    shown = server.http.get("/datasets/census/requests").json()["decisions"]
    assert [each["outcome"] for each in shown] == ["opened", "granted"]


def test_requests_of_an_unknown_dataset_get_404(server: LocalServer) -> None:
    problem = server.http.get("/datasets/nowhere/requests")
    assert problem.status_code == 404
    assert problem.json()["error"] == "unknown_dataset"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=all", "limit"),
        ("after=-1", "after"),
        ("after=9007199254740992", "after"),
        ("after=1.0", "after"),
        ("after=%C2%B2", "after"),
    ],
)
def test_a_page_parameter_out_of_bounds_gets_422_with_the_rule(
    server: LocalServer, query: str, field: str
) -> None:
    problem = server.http.get(f"/datasets/census/requests?{query}")
    assert problem.status_code == 422
    assert problem.json()["field"] == field
    assert problem.json()["rule"].startswith("must be a whole number from ")


@pytest.mark.parametrize("index", ["older", "rebuilt"])
def test_archived_decisions_get_410_with_the_first_readable_number(
    file: Path, clock: TestClock, tmp_path: Path, index: str
) -> None:
    fill(file, clock)
    with LocalServer(file, clock) as server:
        before = server.http.get("/datasets/survey/requests?limit=1000").json()["decisions"]
    archive_file(file, clock, tmp_path / "old.jsonl.gz")
    if index == "rebuilt":
        for each in file.parent.glob("*.index*"):
            each.unlink()
    with LocalServer(file, clock) as server:
        gone = server.http.get("/datasets/survey/requests")
        assert gone.status_code == 410
        problem = gone.json()
        assert (problem["error"], problem["field"]) == ("gone", "after")
        assert "are in an archive of the log" in problem["message"]
        first = problem["after"]
        assert 1 <= first < len(before)
        assert problem["rule"] == f"must be at least {first}"
        assert re.search(rf"decisions 1 to {first} of survey .* read on after={first}", gone.text)
        assert server.http.get(f"/datasets/survey/requests?after={first - 1}").status_code == 410
        page = server.http.get(f"/datasets/survey/requests?after={first}").json()
        assert page["decisions"] == before[first:]
        with Accountant(server.url) as client:
            with pytest.raises(Gone, match="read on after=") as raised:
                next(client.requests("survey"))
            assert raised.value.after == first
            readable = [each.sequence for each in client.requests("survey", after=first)]
            assert readable == [each["sequence"] for each in before[first:]]
    with ledger_of(file, clock) as ledger, pytest.raises(Gone) as raised:
        next(ledger.requests("survey"))
    assert raised.value.after == first


def test_a_fully_archived_dataset_gets_410_with_its_end(
    file: Path, clock: TestClock, tmp_path: Path
) -> None:
    with LocalServer(file, clock) as server:
        server.open("once")
        assert server.ask(dataset="once").status_code == 200
        server.open()
        clock.pass_(seconds=20_000)
        for _ in range(3):
            assert server.ask(claim={"type": "pure", "epsilon": "0.01"}).status_code == 200
    archive_file(file, clock, tmp_path / "old.jsonl.gz", before=clock.now() - 10_000_000)
    with LocalServer(file, clock) as server:
        gone = server.http.get("/datasets/once/requests")
        assert (gone.status_code, gone.json()["after"]) == (410, 2)
        end = server.http.get("/datasets/once/requests?after=2").json()
        assert end == {"decisions": [], "next": 2}


async def test_a_client_iterates_over_all_pages(server: LocalServer) -> None:
    for _ in range(3):
        server.ask(claim={"type": "pure", "epsilon": "0.01"})
    async with AsyncAccountant(server.url) as client:
        found = [each.sequence async for each in client.requests("census", after=1)]
    assert found == [2, 3, 4]
