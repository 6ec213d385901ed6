"""A real server for tests: uvicorn on a free port of the loopback, a ledger in a real file.

It has no pages unless a test gives them: then a change of a page reaches only tests of pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from streams.clock import Clock
from streams.curator.start import answers_of_file
from streams.embedded.service import EmbeddedService
from streams.metrics.registry import make_registry
from streams.server.app import ROUTES, Pages
from streams.server.gateway_server import GatewayServer, run_gateway
from streams.settings import Settings
from streams.sources.no_sources import NoSources
from streams.sources.source_file import open_source_file
from tests.patience import PATIENCE_S
from tests.streams.gateway.records import opening, request

# Each server copies the handlers with what they have parsed, which takes a quarter of its start.
for _handler in ROUTES:
    assert _handler.parsed_fn_signature


class LocalServer:
    """An embedded ledger behind HTTP, in threads of this process.

    Args:
        sources: in place of those of the settings, as `accountant serve` has none.
        pages: `streams.pages.PAGES` for the whole server, as `accountant serve` runs it; None for
            the API alone.

    Attributes:
        verify: whose certificates its client believes.
    """

    # No authority: it speaks plain HTTP, and to read all of them takes a fifth of its start.
    verify: ssl.SSLContext | bool = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def __init__(
        self,
        path: Path,
        clock: Clock,
        settings: Settings | None = None,
        *,
        pages: Pages | None = None,
        sources: NoSources | None = None,
        **more: Any,
    ) -> None:
        self.clock = clock
        self._pages = pages
        self._sources = sources
        self.settings = settings or Settings(port=0)
        self.service = EmbeddedService.open(path, self.settings, clock=clock, **more)
        self._server: GatewayServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening = threading.Event()
        self.url = ""
        self._thread = threading.Thread(target=self._run, args=(path,))
        self._thread.start()
        assert self._listening.wait(PATIENCE_S)
        self.http = httpx.Client(
            base_url=self.url, timeout=PATIENCE_S, trust_env=False, verify=self.verify
        )

    def _run(self, path: Path) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            file = open_source_file(self.settings)
            async with answers_of_file(self.service, path, self.settings, file) as answered:
                registry = make_registry(self.service.live_ledgers, *answered.collectors)
                await run_gateway(
                    self.service,
                    self.settings,
                    registry=registry,
                    listening=listening,
                    made=made,
                    clock=self.clock,
                    answers=answered.reader,
                    queue=answered.queue,
                    states=answered.states,
                    pages=self._pages,
                    sources=self._sources or file,
                )

        def listening(url: str) -> None:
            self.url = url
            self.service.publish_address(url)
            self._listening.set()

        def made(server: GatewayServer) -> None:
            self._server = server

        asyncio.run(main())

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(
            path, content=content, headers={"content-type": "application/json"} | named
        )

    def ask(self, **more: Any) -> httpx.Response:
        return self.post("/requests", request(self.clock, **more))

    def open(self, dataset: str = "census", **policy: Any) -> None:
        response = self.post("/datasets?new=true", opening(self.clock, dataset, **policy))
        assert response.json()["outcome"] == "opened", response.text

    def last_sequence(self) -> int:
        partition = self.service.live_ledgers.snapshot().partitions[0]
        return partition.sequence

    def metric(self, line: str) -> str | None:
        """Return the value of one series, None if it is not there."""
        for found in self.http.get("/metrics").text.splitlines():
            name, _, value = found.rpartition(" ")
            if name == line:
                return value
        return None

    def close(self) -> None:
        self.http.close()
        if self._loop is not None and self._server is not None:
            with contextlib.suppress(RuntimeError):  # closed before
                self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join()
        self.service.close_sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _t: TracebackType | None,
    ) -> None:
        self.close()
