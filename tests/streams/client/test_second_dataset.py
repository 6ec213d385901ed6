"""Without authentication a second dataset on one source is asked back, whatever it is sent by."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from streams.client import Accountant, AsyncAccountant, NotPermitted, SecondDataset
from streams.client.http.service import HttpService
from streams.errors import Unavailable
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import SCHEMA, asking, data_settings, opening_with_schema
from tests.streams.gateway.local_server import LocalServer

CITY = {"filter": "basic", "epsilon": "5", "population": "city"}


@pytest.fixture
def server(tmp_path: Path, clock: TestClock) -> Iterator[LocalServer]:
    """A server whose `survey` reads the source of `SCHEMA`."""
    settings = Settings(port=0, **data_settings(tmp_path))
    with LocalServer(tmp_path / "ledger.db", clock, settings) as running:
        body = opening_with_schema(clock, "survey", **CITY)
        assert running.post("/datasets", body).json()["outcome"] == "opened"
        yield running


def test_a_server_asks_back_before_anything_is_appended(server: LocalServer) -> None:
    body = opening_with_schema(server.clock, "again", **CITY)
    before = server.last_sequence()
    asked = server.post("/datasets", body)
    assert asked.status_code == 409
    assert asked.json()["error"] == "second_dataset"
    assert "survey reads the source people already" in asked.json()["message"]
    assert server.last_sequence() == before
    assert server.post("/datasets?new=true", body).json()["outcome"] == "opened"
    assert server.post("/datasets", body).json()["outcome"] == "repeated"


def test_a_question_on_a_dataset_that_is_not_known_yet_is_not_appended(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(dataset: str) -> None:
        raise Unavailable(f"a row of {dataset} may be missing")

    before, question = server.last_sequence(), asking(server.clock, "absent", "ana")
    monkeypatch.setattr(server.service, "check_is_known", check)
    assert server.post("/requests", question).status_code == 503
    assert server.last_sequence() == before


def test_a_server_refuses_a_second_dataset_whose_budget_does_not_add_up(
    server: LocalServer,
) -> None:
    for policy in ({**CITY, "population": "town"}, {"filter": "basic", "epsilon": "5"}):
        body = opening_with_schema(server.clock, "again", **policy)
        assert server.post("/datasets?new=true", body).status_code == 403
    assert [view["dataset"] for view in server.http.get("/datasets").json()] == ["survey"]


def test_a_client_of_a_server_asks_back_and_is_obeyed(server: LocalServer) -> None:
    with Accountant(server.url, clock=server.clock) as ledger:
        with pytest.raises(SecondDataset, match="survey reads the source people") as error:
            ledger.as_owner("owner").open("again", CITY, schema=SCHEMA)
        assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
        with pytest.raises(NotPermitted, match="only in one population"):
            ledger.as_owner("o").open("again", {**CITY, "population": "x"}, schema=SCHEMA, new=True)
        assert (
            ledger.as_owner("owner").open("again", CITY, schema=SCHEMA, new=True).outcome
            == "opened"
        )
        # A program opens the same names at each start.
        assert (
            ledger.as_owner("owner").open("again", CITY, schema=SCHEMA).reason == "already_opened"
        )


async def test_a_server_that_knows_more_than_its_client_asks_back(server: LocalServer) -> None:
    body = msgspec.json.encode(opening_with_schema(server.clock, "again", **CITY))
    service = HttpService(server.url)
    try:
        with pytest.raises(SecondDataset, match="new=True"):
            await service.submit("admin", body, wait=5)
        answer = await service.submit("admin", body, wait=5, new=True)
        assert answer.decision is not None
        assert msgspec.json.decode(answer.decision)["outcome"] == "opened"
    finally:
        await service.close()


async def test_a_ledger_in_this_process_asks_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/own.db"
    with Accountant(url) as ledger:
        assert ledger.as_owner("owner").open("survey", CITY, schema=SCHEMA).outcome == "opened"
        with pytest.raises(SecondDataset, match="survey reads the source people"):
            ledger.as_owner("owner").open("mine", CITY, schema=SCHEMA)
        elsewhere = SCHEMA | {"source": {"kind": "csv", "name": "visits"}}
        assert ledger.as_owner("owner").open("mine", CITY, schema=elsewhere).outcome == "opened"
        assert ledger.as_owner("owner").open("claims", CITY).outcome == "opened"
    async with AsyncAccountant(url) as again:
        with pytest.raises(SecondDataset):
            await again.as_owner("owner").open("other", CITY, schema=SCHEMA)
        opened = await again.as_owner("owner").open("other", CITY, schema=SCHEMA, new=True)
        assert opened.outcome == "opened"


def test_a_dataset_that_was_closed_unused_is_no_second_budget(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path}/own.db") as ledger:
        ledger.as_owner("owner").open("wrong", CITY, schema=SCHEMA)
        ledger.as_owner("owner").close("wrong")
        assert ledger.as_owner("owner").open("survey", CITY, schema=SCHEMA).outcome == "opened"
