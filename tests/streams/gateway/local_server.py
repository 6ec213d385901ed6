"""A real server for tests: uvicorn on a free port of the loopback, a ledger in a real file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from accountant.times import uuid7
from streams.clock import Clock
from streams.curator.start import answers_of_file
from streams.embedded.service import EmbeddedService
from streams.metrics import make_registry
from streams.server.serve import GatewayServer, run_gateway
from streams.settings import Settings
from tests.patience import PATIENCE_S

NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z


class TestClock:
    """A clock that stands still until it is moved."""

    __test__ = False

    def __init__(self, now: int = NOON) -> None:
        self._now = now
        self._monotonic = 1000.0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def pass_(self, *, seconds: float) -> None:
        """Let time go by."""
        self._now += int(seconds * 1000)
        self._monotonic += seconds

    def jump(self, *, seconds: float) -> None:
        """Set the wall clock alone."""
        self._now += int(seconds * 1000)


def get_scope(path: str) -> Any:
    """Return the scope in which a server calls a server for GET of a path."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


def new_id(clock: Clock, *, ahead_ms: int = 0) -> str:
    return uuid7(clock.now() + ahead_ms, os.urandom(10))


def request(
    clock: Clock, *, claim: dict[str, Any] | None = None, request_id: str | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "version": 1,
        "type": "request",
        "request_id": request_id or new_id(clock),
        "analyst": "ana",
        "dataset": "census",
        "claim": claim or {"type": "pure", "epsilon": "0.1"},
        "unit": "person",
        "neighbours": "add_remove",
        **more,
    }


def _owners(clock: Clock, kind: str, dataset: str, **fields: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "type": kind,
        "request_id": new_id(clock),
        "dataset": dataset,
        "by": "owner",
        **fields,
    }


def opening(clock: Clock, dataset: str = "census", **policy: Any) -> dict[str, Any]:
    return _owners(clock, "open", dataset, policy={"filter": "basic", "epsilon": "1", **policy})


def amending(clock: Clock, dataset: str = "census", **fields: Any) -> dict[str, Any]:
    return _owners(clock, "amend", dataset, **fields)


def closing(clock: Clock, dataset: str = "census") -> dict[str, Any]:
    return _owners(clock, "close", dataset)


def pausing(
    clock: Clock, dataset: str = "census", kind: str = "pause", **fields: Any
) -> dict[str, Any]:
    return _owners(clock, kind, dataset, **fields)


def eventually(true: Callable[[], bool], *, seconds: float = PATIENCE_S) -> None:
    """Return once a condition holds; give up after long enough for any machine."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it never became true"
        time.sleep(0.02)


class LocalServer:
    """An embedded ledger behind HTTP, in threads of this process.

    Attributes:
        verify: whose certificates its client believes.
    """

    verify: ssl.SSLContext | bool = True

    def __init__(self, path: Path, clock: Clock, settings: Settings | None = None, **more: Any):
        self.clock = clock
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
            async with answers_of_file(self.service, path, self.settings) as answered:
                registry = make_registry(self.service.live_ledgers, *answered.collectors)
                await run_gateway(
                    self.service,
                    self.settings,
                    registry=registry,
                    listening=listening,
                    made=made,
                    clock=self.clock,
                    answers=answered.reader,
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
        response = self.post("/datasets", opening(self.clock, dataset, **policy))
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
