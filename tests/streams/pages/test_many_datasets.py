"""The list of more datasets than it shows."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator

import httpx
import pytest

from accountant.views.datasets import DatasetView
from streams.embedded.service import EmbeddedService
from streams.pages import PAGES
from streams.server.app import create_app
from streams.settings import Settings
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.many_datasets import NAMES, many_datasets


@pytest.fixture(scope="module")
def big_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with many_datasets(tmp_path_factory.mktemp("ledger") / "ledger.db", pages=PAGES) as server:
        yield server


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
        self.ordered_before, self.member = service.ordered_before, service.member
        self.threads: set[int] = set()

    async def datasets(self) -> list[DatasetView]:
        views = _ViewsThatRecordThreads(await self._service.datasets())
        views.threads = self.threads
        return views


def test_the_dataset_list_page_is_rendered_in_another_thread(big_server: LocalServer) -> None:
    service = _ServiceThatRecordsThreads(big_server.service)
    app = create_app(service, Settings(port=0), pages=PAGES)  # type: ignore[arg-type]  # it asks for no more

    async def look() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert NAMES[7] in (await http.get("/")).text
        return threading.get_ident()

    loop = asyncio.run(look())
    assert service.threads
    assert loop not in service.threads
