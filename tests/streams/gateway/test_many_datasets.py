"""More datasets than a page shows, and than one turn of the loop encodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from streams.server.app import create_app
from streams.settings import Settings
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.many_datasets import NAMES, many_datasets
from tests.streams.server.scope import get_scope


@pytest.fixture(scope="module")
def big_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with many_datasets(tmp_path_factory.mktemp("ledger") / "ledger.db") as server:
        yield server


def _names(views: list[dict[str, Any]]) -> list[str]:
    return [view["dataset"] for view in views]


def test_the_dataset_list_is_sent_in_slices_that_let_other_tasks_run(
    big_server: LocalServer,
) -> None:
    app = create_app(big_server.service, Settings(port=0))
    bodies: list[bytes] = []
    turns: list[int] = []
    turn = 0
    answered = asyncio.Event()

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def send(message: Any) -> None:
        if b'"dataset"' in message.get("body", b""):
            turns.append(turn)
        bodies.append(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    async def receive() -> Any:
        await answered.wait()
        return {"type": "http.disconnect"}

    async def get() -> None:
        task = asyncio.create_task(others())
        await app(get_scope("/datasets"), receive, send)
        task.cancel()

    asyncio.run(get())
    assert _names(msgspec.json.decode(b"".join(bodies))) == NAMES
    assert len(turns) > 2
    assert turns == sorted(set(turns)), "a slice came without a turn after the one before"


def test_pages_of_datasets_add_up_to_the_whole_list(big_server: LocalServer) -> None:
    found: list[dict[str, Any]] = []
    sizes = []
    after = ""
    for _ in range(3):
        page = big_server.http.get("/datasets", params={"after": after, "limit": "200"}).json()
        sizes.append(len(page))
        found += page
        after = page[-1]["dataset"]
    assert sizes == [200, 200, 103]
    assert found == big_server.http.get("/datasets").json()
    assert _names(found) == NAMES


def test_a_page_can_begin_after_a_name_of_no_dataset(big_server: LocalServer) -> None:
    page = big_server.http.get(
        "/datasets", params={"after": "dataset-4999", "limit": "10000"}
    ).json()
    assert _names(page) == NAMES[500:]
    assert big_server.http.get("/datasets", params={"after": "e"}).json() == []


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "1.5", "x", "", "1" * 5000, "\u0661"])
def test_a_wrong_limit_is_reported_by_field_rule_and_value(
    big_server: LocalServer, limit: str
) -> None:
    response = big_server.http.get("/datasets", params={"limit": limit})
    result = response.json()
    assert (response.status_code, result["error"], result["field"]) == (
        422,
        "invalid_field",
        "limit",
    )
    assert result["rule"] == "must be a whole number from 1 to 10000"
    assert result.get("value", "").startswith(limit[:80])


def test_the_openapi_document_says_how_to_page(big_server: LocalServer) -> None:
    document = big_server.http.get("/schema/openapi.json").json()
    parameters = {
        each["name"]: each for each in document["paths"]["/datasets"]["get"]["parameters"]
    }
    assert not any(each["required"] for each in parameters.values())
    assert parameters["after"]["schema"]["type"] == "string"
    limit = parameters["limit"]["schema"]
    assert (limit["type"], limit["minimum"], limit["maximum"]) == ("integer", 1, 10_000)
    assert "oneOf" not in limit
