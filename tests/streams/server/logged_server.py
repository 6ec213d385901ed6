"""`serve` or `gateway` as a process, with authentication, whose log a test reads."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec

from accountant.times import uuid7
from streams.auth import token_file
from streams.clock import SystemClock
from tests.faults.server_process import ServerProcess
from tests.patience import PATIENCE_S
from tests.streams.waiting import eventually

NAMES = ("root", "ana")


class LoggedServer(ServerProcess):
    """A server of which `root` is the administrator.

    Attributes:
        tokens: by name.
        http: a client of it, once it has started.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str], command: str = "serve"):
        tokens = directory / "tokens.json"
        now = SystemClock().now()
        self.tokens = {name: token_file.create(tokens, name, now=now).token for name in NAMES}
        known = {
            "ACCOUNTANT_URL": f"sqlite:///{directory}/ledger.db",
            "ACCOUNTANT_CHECKPOINTS": "off",
            "ACCOUNTANT_TOKENS": str(tokens),
            "ACCOUNTANT_ADMINISTRATORS": "root",
            "ACCOUNTANT_ACCESS_LOG": "all",
        }
        self.log = directory / "server.log"
        super().__init__(command, self.log, {**known, **settings})

    def __enter__(self) -> LoggedServer:
        self.start()
        self.http = httpx.Client(base_url=self.address, timeout=PATIENCE_S, trust_env=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.kill()

    def auth(self, name: str) -> dict[str, str]:
        """Return the header that authenticates somebody."""
        return {"Authorization": f"Bearer {self.tokens[name]}"}

    def post(self, name: str, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        """Send a record with an id of its own."""
        whole = {"version": 1, "request_id": new_id(), **body}
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        sent = {"content-type": "application/json", **self.auth(name), **named}
        return self.http.post(path, content=msgspec.json.encode(whole), headers=sent)

    def open(self, dataset: str = "census") -> None:
        """Open a dataset that root owns, and let ana ask."""
        policy = {"filter": "basic", "epsilon": "1", "access": "members"}
        body = {"type": "open", "dataset": dataset, "by": "root", "policy": policy}
        assert self.post("root", "/datasets?new=true", body).json()["outcome"] == "opened"
        member = {"type": "member", "dataset": dataset, "by": "root", "member": "ana"}
        path = f"/datasets/{dataset}/members"
        found = self.post("root", path, {**member, "roles": ["analyst"]})
        assert found.json()["outcome"] == "member_set", found.text

    def exchanged(self, request: bytes) -> bytes:
        """Return all that a connection answers to some bytes."""
        host, _, port = self.address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            found = b""
            while piece := connection.recv(65_536):
                found += piece
            return found

    def lines(self, event: str = "http_request") -> list[dict[str, Any]]:
        """Return the events of one name in the log so far."""
        return events(self.log, event)

    def line_of(self, request_id: str) -> dict[str, Any]:
        """Return the line of one request, which is written at the end of its response."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines() if line["http_request_id"] == request_id]

        eventually(lambda: bool(found()))
        (line,) = found()
        return line


def asking(dataset: str = "census") -> dict[str, Any]:
    """Return a request of ana's, without its id."""
    return {
        "type": "request",
        "dataset": dataset,
        "analyst": "ana",
        "claim": {"type": "pure", "epsilon": "0.01"},
        "unit": "person",
        "neighbours": "add_remove",
    }


def new_id() -> str:
    """Return an id of a record."""
    return uuid7(SystemClock().now(), os.urandom(10))


def events(log: Path, event: str) -> list[dict[str, Any]]:
    """Return the events of one name among the JSON lines of a log."""
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in map(json.loads, lines) if line["event"] == event]
