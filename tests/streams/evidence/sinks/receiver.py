"""A webhook's receiver: a real HTTP server that keeps each note that is posted to it as a file."""

from __future__ import annotations

import http.server
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

SECRET = "T0-path-secret"


class CheckpointReceiver:
    """Listens on loopback from `up` to `down`, at the same port each time.

    Args:
        directory: of the notes that it has answered with 204.
        answers: statuses in their order; once they are used up, 204 for ever.

    Attributes:
        posts: path, headers and body of each request.
        slow: seconds before each answer.
        location: where answers of 3xx point to.
    """

    def __init__(self, directory: Path, *answers: int) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.posts: list[tuple[str, dict[str, str], bytes]] = []
        self.slow = 0.0
        self.location = ""
        self._answers: Iterator[int] = iter(answers)
        self._server: http.server.ThreadingHTTPServer | None = None
        self.port = 0
        self._kept: socket.socket | None = None  # keeps the port from others while nobody listens
        self.up()
        self.url = f"http://127.0.0.1:{self.port}/notes/{SECRET}?token={SECRET}"
        self.name = f"http://127.0.0.1:{self.port}"

    def answer(self, *statuses: int) -> None:
        """Answer the next requests so."""
        self._answers = iter(statuses)

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

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        self._let_go()
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop listening: who posts is refused the connection."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            self._kept = socket.socket()
            self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._kept.bind(("127.0.0.1", self.port))

    def _let_go(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _take(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.posts.append((request.path, headers, body))
        status = next(self._answers, 204)
        time.sleep(self.slow)
        if status < 300:
            self.keep(body)
        request.send_response(status)
        request.send_header("content-length", "0")
        if self.location:
            request.send_header("location", self.location)
        request.end_headers()

    def keep(self, note: bytes) -> None:
        """Keep a note whole: a test may read beside it."""
        partial = self.directory / f".{uuid.uuid4().hex}"
        partial.write_bytes(note)
        partial.rename(self.directory / f"{uuid.uuid4().hex}.note")

    def notes(self) -> list[bytes]:
        """Return what it keeps."""
        return [path.read_bytes() for path in self.directory.glob("*.note")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()
        self._let_go()
