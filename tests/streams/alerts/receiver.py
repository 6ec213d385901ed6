"""A webhook's receiver: a real HTTP server with scripted answers, which records its requests."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from tests.patience import PATIENCE_S


@dataclass
class Post:
    """One request that came in."""

    path: str
    key: str
    authorization: str | None
    body: dict[str, Any]
    at: float = field(default_factory=time.monotonic)


class Receiver:
    """Listens on loopback from `up` to `down`, at the same port each time.

    Args:
        answers: statuses in their order; once they are used up, 204 for ever.
        slow: seconds before each answer.
    """

    def __init__(self, *answers: int, slow: float = 0.0) -> None:
        self.posts: list[Post] = []
        self.taken: list[str] = []
        self._answers: Iterator[int] = iter(answers)
        self.slow = slow
        self._server: http.server.ThreadingHTTPServer | None = None
        self.up()
        assert self._server is not None
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook/T0-path-secret"

    def up(self) -> None:
        """Listen."""
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", getattr(self, "port", 0)), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop listening: the connection of a sender is refused."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _take(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        key = request.headers["idempotency-key"]
        authorization = request.headers.get("authorization")
        self.posts.append(Post(request.path, key, authorization, json.loads(body)))
        time.sleep(self.slow)
        status = next(self._answers, 204)
        if status < 300:
            self.taken.append(key)
        request.send_response(status)
        request.send_header("content-length", "0")
        request.end_headers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()


def until(holds: Callable[[], object], what: str) -> None:
    """Return once something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came to be: {what}"
        time.sleep(0.02)
