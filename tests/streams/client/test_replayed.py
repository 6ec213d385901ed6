"""Clients never ask for a replay, and run nothing on one that a proxy asked for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from streams.client import Accountant, Unanswered
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

runs: list[int] = []


def draw() -> int:
    runs.append(1)
    return 7


class Middleware:
    """A proxy that retries each POST, and prefers a replay.

    Attributes:
        prefers: the values of Prefer that the client sent.
        is_on: whether it retries.
    """

    def __init__(self, url: str) -> None:
        self.is_on = True
        self.prefers = prefers = list[str]()
        middleware = self

        class Handler(BaseHTTPRequestHandler):
            def _forward(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {**self.headers, "Host": "localhost"}
                found = httpx.request(
                    self.command,
                    url + self.path,
                    headers=headers,
                    content=content,
                    timeout=PATIENCE_S,
                )
                if self.command == "POST":
                    prefers.append(headers.get("prefer", ""))
                    if middleware.is_on:
                        headers["prefer"] = "wait=5, replay=original"
                        found = httpx.post(
                            url + self.path, headers=headers, content=content, timeout=PATIENCE_S
                        )
                self.send_response(found.status_code)
                for name, value in found.headers.items():
                    if name not in {"transfer-encoding", "content-length", "connection"}:
                        self.send_header(name, value)
                self.send_header("content-length", str(len(found.content)))
                self.end_headers()
                self.wfile.write(found.content)

            do_GET = do_POST = _forward  # noqa: N815 (the library's names)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextlib.contextmanager
def retrying(url: str) -> Iterator[Middleware]:
    middleware = Middleware(url)
    thread = threading.Thread(target=middleware.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield middleware
    finally:
        middleware.server.shutdown()
        thread.join()
        middleware.server.server_close()


def test_a_mechanism_never_runs_on_a_replayed_grant(
    file: Path, clock: TestClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "private" / "answers.db"))
    runs.clear()
    with LocalServer(file, clock) as server, retrying(server.url) as middleware:
        server.open()
        with Accountant(middleware.url, analyst="ana", clock=clock) as ledger:
            with pytest.raises(Unanswered, match="replayed decision"):
                ledger.release("census", "pure:0.1", draw, once="count")
            with (
                pytest.raises(Unanswered, match="replayed decision"),
                ledger.grant("census", "pure:0.1", request_id=new_id(clock)),
            ):
                runs.append(1)
            with pytest.raises(Unanswered, match="replayed decision"):
                ledger.ask("census", "pure:0.1", request_id=new_id(clock))
            assert runs == []
            middleware.is_on = False
            assert ledger.release("census", "pure:0.1", draw, once="count") == 7
            assert runs == [1]
        assert middleware.prefers
        assert all("replay" not in prefer for prefer in middleware.prefers)
        assert server.http.get("/datasets/census").json()["totals"]["epsilon"] == "0.3"
