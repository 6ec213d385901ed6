"""More datasets than a page shows, and than one turn of the loop encodes."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from accountant.views.datasets import DatasetView
from streams.embedded.service import EmbeddedService
from streams.server.app import create_app
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import closing, opening
from tests.streams.server.scope import get_scope

NAMES = [f"dataset-{number:03}" for number in range(503)]


async def _open_all(service: EmbeddedService, clock: TestClock) -> None:
    bodies = [msgspec.json.encode(opening(clock, name)) for name in NAMES]
    answers = await asyncio.gather(*[service.submit("admin", body, wait=20) for body in bodies])
    assert all(answer.decision for answer in answers)


@pytest.fixture(scope="module")
def big_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server with 503 datasets; 007 has spent most, 005 is exhausted and 003 closed."""
    clock = TestClock()
    with LocalServer(tmp_path_factory.mktemp("ledger") / "ledger.db", clock) as server:
        asyncio.run(_open_all(server.service, clock))
        for name, epsilon in ((5, "1"), (9, "0.3"), (7, "0.7"), (3, "0.9")):
            server.ask(dataset=NAMES[name], claim={"type": "pure", "epsilon": epsilon})
        server.post(f"/datasets/{NAMES[3]}/close", closing(clock, NAMES[3]))
        yield server


def _names(views: list[dict[str, Any]]) -> list[str]:
    return [view["dataset"] for view in views]


def test_the_page_shows_500_datasets_nearest_to_exhaustion_and_counts_the_rest(
    big_server: LocalServer,
) -> None:
    text = big_server.http.get("/").text
    shown = re.findall('<tr><th scope="row"><a href="[^"]*">([^<]*)</a></th>', text)
    assert shown[:4] == [NAMES[7], NAMES[9], NAMES[0], NAMES[1]]
    assert len(shown) == 500
    assert not {NAMES[3], NAMES[5]} & set(shown)
    assert "and 3 more: <code>GET /datasets</code> lists all" in text


class _ViewsThatRecordThreads(list[DatasetView]):
    """Views that note which thread goes through them."""

    threads: set[int]

    def __iter__(self) -> Iterator[DatasetView]:
        self.threads.add(threading.get_ident())
        return super().__iter__()


class _ServiceThatRecordsThreads:
    """A real service, but for the list that it hands out."""

    def __init__(self, service: EmbeddedService) -> None:
        self._service = service
        self.readiness = service.readiness
        self.ordered_before = service.ordered_before
        self.threads: set[int] = set()

    async def datasets(self) -> list[DatasetView]:
        views = _ViewsThatRecordThreads(await self._service.datasets())
        views.threads = self.threads
        return views


def test_the_dataset_list_page_is_rendered_in_another_thread(big_server: LocalServer) -> None:
    service = _ServiceThatRecordsThreads(big_server.service)
    app = create_app(service, Settings(port=0))  # type: ignore[arg-type]  # the page asks for no more

    async def look() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert NAMES[7] in (await http.get("/")).text
        return threading.get_ident()

    loop = asyncio.run(look())
    assert service.threads
    assert loop not in service.threads


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
