"""Missing ledgers, addresses of other services, and servers that hang."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accountant.records.outcomes import Outcome
from streams.client import Accountant, AsyncAccountant, Unanswered
from streams.client.connection.connect import NoSuchLedger
from streams.errors import Refused, Unavailable, Unreadable
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

ONE = {"filter": "basic", "epsilon": "1"}

Answered = tuple[int, str, bytes]
STRANGERS: dict[str, Answered] = {
    "a static site": (404, "text/html", b"<h1>Not Found</h1>"),
    "another API": (404, "application/json", b'{"detail":"Not Found"}'),
    "another API's codes": (404, "application/json", b'{"error":"not_found"}'),
    "binary": (404, "application/octet-stream", b"\xff\xfe"),
    "a page for every path": (200, "text/html", b"<!doctype html>"),
    "an object for every path": (200, "application/json", b"{}"),
}
CALLS: dict[str, Callable[[Accountant], Any]] = {
    "ask": lambda ledger: ledger.ask("census", "pure:0.1", analyst="ana"),
    "pause": lambda ledger: ledger.as_owner("owner").pause("census"),
    "close": lambda ledger: ledger.as_owner("owner").close("census"),
    "datasets": lambda ledger: ledger.datasets(),
    "dataset": lambda ledger: ledger.dataset("census"),
    "usage": lambda ledger: ledger.usage("census"),
    "why": lambda ledger: ledger.why("census"),
    "decision": lambda ledger: ledger.decision("census", "ana", new_id(TestClock())),
    "requests": lambda ledger: next(ledger.requests("census")),
    "events": lambda ledger: next(ledger.events()),
    "alerts": lambda ledger: next(ledger.alerts()),
}


@contextlib.contextmanager
def serving(answer: Answered) -> Iterator[str]:
    """Run an HTTP server that gives one answer to everything."""
    status, kind, content = answer

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("stranger", STRANGERS)
def test_another_kind_of_server_is_never_an_empty_ledger(stranger: str) -> None:
    with serving(STRANGERS[stranger]) as url, Accountant(url) as ledger:
        for name, call in CALLS.items():
            # What was sent to be recorded may have been: that alone is not known.
            kind = Unanswered if name in {"close", "pause"} else Refused
            with pytest.raises(kind, match="Check that this is a gateway's address"):
                call(ledger)


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"null", b"", b'{"version":1}', b'{"outcome":"granted"}', b'{"ver']
)
def test_garbage_in_place_of_a_decision_names_the_request_and_no_format(body: bytes) -> None:
    asked = new_id(TestClock())
    with serving((200, "application/json", body)) as url, Accountant(url) as ledger:
        with pytest.raises(Unanswered, match="no proxy answers in its place") as caught:
            ledger.ask(
                *("census", "pure:0.1"),
                analyst="ana",
                unit="person",
                neighbours="add_remove",
                request_id=asked,
            )
        assert f"Ask again with request_id {asked}: it is never charged twice" in str(caught.value)
        for frightening in ("version", "release", "damaged", "new ledger", "format"):
            assert frightening not in str(caught.value)
        with pytest.raises(Refused, match="something that is not a gateway's response"):
            ledger.decision("census", "ana", asked)


def test_a_decision_of_a_newer_version_says_which_version_to_run() -> None:
    newer = (200, "application/json", b'{"version":9,"outcome":"granted"}')
    with (
        serving(newer) as url,
        Accountant(url) as ledger,
        pytest.raises(Unanswered, match=r"version 9, .* run the newer version"),
    ):
        ledger.as_owner("owner", reason="done").close("census")


@contextlib.contextmanager
def hanging() -> Iterator[tuple[str, list[socket.socket]]]:
    """Run a server that takes connections and never answers."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept_all() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(server.accept()[0])

        thread = threading.Thread(target=accept_all)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", taken
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in taken:
        connection.close()


def test_an_address_of_another_scheme_or_with_a_path_says_what_to_write(tmp_path: Path) -> None:
    with serving(STRANGERS["a static site"]) as url:
        with Accountant(f"{url}/ui") as ledger, pytest.raises(Unreadable, match="Remove /ui from"):
            ledger.datasets()
        tls = url.replace("http://", "https://")
        with Accountant(tls) as ledger, pytest.raises(Refused, match=f"speaks no TLS: use {url}"):
            ledger.datasets()
    text = tmp_path / "notes.txt"
    text.write_text("some text that is no database, and longer than a header " * 9)
    with (
        pytest.raises(Refused, match="is not a ledger's file"),
        Accountant(f"sqlite:///{text}") as ledger,
    ):
        ledger.datasets()


@pytest.mark.slow
def test_a_call_to_a_hanging_server_is_not_retried_after_its_wait() -> None:
    mine = new_id(TestClock())
    with hanging() as (url, taken), Accountant(url) as ledger:
        with pytest.raises(Unanswered, match=r"not answer within 0\.1 s\. Ask again") as raised:
            ledger.ask("census", "pure:0.1", analyst="ana", request_id=mine, wait=0.1)
        assert len(taken) == 1
    assert raised.value.request_id == mine
    assert mine in str(raised.value)


def test_an_unreachable_address_gives_the_id_to_retry_with() -> None:
    with (
        Accountant("http://127.0.0.1:9") as ledger,
        pytest.raises(Unanswered, match=r"does not answer: .+\. Ask again") as raised,
    ):
        ledger.ask("census", "pure:0.1", analyst="ana", wait=0)
    assert raised.value.request_id in str(raised.value)


@pytest.mark.slow
def test_an_unreachable_broker_is_named_with_the_reason() -> None:
    said = r"127\.0\.0\.1:1 does not answer within 2 s: .*there is no connection"
    with pytest.raises(Unavailable, match=said):
        Accountant("kafka://127.0.0.1:1", wait=0)


@pytest.mark.parametrize("name", CALLS)
def test_only_an_opening_creates_a_ledger(file: Path, clock: TestClock, name: str) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        with pytest.raises(NoSuchLedger, match=r"no such ledger: .*ledger\.db\. Check the path"):
            CALLS[name](ledger)
        assert list(file.parent.iterdir()) == []
        assert ledger.as_owner("owner").open("census", ONE, as_given=True).outcome is Outcome.OPENED
        assert ledger.ask("census", "pure:0.1", analyst="ana").outcome is Outcome.GRANTED
    assert file.exists()


async def test_the_async_client_creates_a_ledger_by_an_opening_only(
    file: Path, clock: TestClock
) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock) as ledger:
        with pytest.raises(NoSuchLedger):
            await ledger.ask("census", "pure:0.1", analyst="ana")
        with pytest.raises(NoSuchLedger):
            ledger.events()
        assert list(file.parent.iterdir()) == []
        assert (
            await ledger.as_owner("owner").open("census", ONE, as_given=True)
        ).outcome is Outcome.OPENED
        assert [view.dataset for view in await ledger.datasets()] == ["census"]


def test_a_ledger_that_another_process_makes_later_is_found(file: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        with pytest.raises(NoSuchLedger):
            ledger.datasets()
        with LocalServer(file, clock) as server:
            server.open()
            assert [view.dataset for view in ledger.datasets()] == ["census"]
