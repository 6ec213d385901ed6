"""`ask_many`: a reply or an error for each request, in order, whatever the ledger is."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from accountant.records.inputs import Undecodable
from streams.client import Accountant, AsyncAccountant, Unanswered
from streams.client.http.service import HttpService
from streams.client.requests.requests import BATCH_LINES
from streams.embedded.service import EmbeddedService
from streams.errors import NotPermitted
from streams.settings import Settings
from tests.every_case import check_each, check_rows
from tests.streams.auth.roles_server import RolesServer
from tests.streams.client.http.test_garbled_responses import GARBLED, JSON, Proxy
from tests.streams.client.requests.test_response_matcher import Awaited, _body
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

ONE = {"filter": "basic", "epsilon": "1"}
Request = dict[str, Any]


@pytest.fixture(params=["http", "http, awaited", "in process", "service"])
def client(
    request: pytest.FixtureRequest, file: Path, clock: TestClock, tmp_path: Path
) -> Iterator[Any]:
    """Return a client of each transport; `service` is an attached service, as on Kafka."""
    with contextlib.ExitStack() as stack:
        if request.param == "in process":
            client: Any = stack.enter_context(Accountant(f"sqlite:///{file}", clock=clock))
        elif request.param == "service":
            service = EmbeddedService.open(file, Settings(), clock=clock)
            client = _awaited(stack, f"sqlite:///{tmp_path / 'absent.db'}", service, clock)
        else:
            server = stack.enter_context(LocalServer(file, clock))
            if request.param == "http":
                client = stack.enter_context(Accountant(server.url, clock=clock))
            else:
                client = _awaited(stack, server.url, HttpService(server.url), clock)
        client.as_owner("owner").open("census", ONE, as_given=True)
        yield client


def _awaited(stack: contextlib.ExitStack, url: str, service: Any, clock: TestClock) -> Awaited:
    runner = stack.enter_context(asyncio.Runner())
    made = AsyncAccountant(url, clock=clock)
    made._connection.attach(service)

    async def close() -> None:
        await made.disconnect()

    stack.callback(lambda: runner.run(close()))
    return Awaited(made, runner)


def new_request(clock: TestClock, **more: Any) -> Request:
    fields = {"dataset": "census", "claim": "pure:0.0001", "analyst": "ana"}
    return {**fields, "request_id": new_id(clock), **more}


def test_each_request_gets_its_reply_or_error_in_order(client: Any, clock: TestClock) -> None:
    first = new_request(clock, claim="pure:0.1")
    requests: list[Any] = [
        first,
        first,  # a repeat
        {**first, "purpose": "another"},  # a conflict
        new_request(clock, claim="pure:5"),
        new_request(clock, dataset="nowhere", unit="person", neighbours="add_remove"),
        new_request(clock, claim="nonsense"),
        new_request(clock, request_id="not an id"),
        new_request(clock, color="blue"),
        {"dataset": "census"},
        b"not json",
        _body(new_id(clock)),
        new_request(clock, claim={"type": "pure", "epsilon": "0.01"}, purpose="last"),
    ]
    found = client.ask_many(requests)
    shown = [type(each) if isinstance(each, Exception) else str(each.outcome) for each in found]
    assert shown == [
        *("granted", "repeated", "conflict", "refused", "refused"),
        *(RequestInvalid, RequestInvalid, RequestInvalid, RequestInvalid, Undecodable),
        *("granted", "granted"),
    ]
    assert found[0].request_id == first["request_id"]
    assert str(found[3].fits) == "pure:0.9"
    assert found[7].field == "color"
    assert found[8].field == "claim"
    assert client.ask_many([]) == []


def test_a_request_without_an_id_gets_one(client: Any) -> None:
    request = {"dataset": "census", "claim": "pure:0.01", "analyst": "ana"}
    one, other = client.ask_many([request, request])
    assert one.granted
    assert other.granted
    assert one.request_id != other.request_id


def test_more_than_a_batch_is_sent_in_batches(client: Any, clock: TestClock) -> None:
    requests = [new_request(clock) for _ in range(2 * BATCH_LINES + 5)]
    found = client.ask_many(iter(requests))
    assert [reply.request_id for reply in found] == [each["request_id"] for each in requests]
    assert all(reply.granted for reply in found)
    again = client.ask_many(requests)
    assert {str(reply.outcome) for reply in again} == {"repeated"}
    assert client.dataset("census").totals["epsilon"] == "0.2005"


def test_a_single_request_is_no_list(client: Any) -> None:
    def check_case(requests: Any) -> None:
        with pytest.raises(RequestInvalid, match="list of requests"):
            client.ask_many(requests)

    check_each(check_case, [b"{}", {"dataset": "census"}, "census"])


def test_long_requests_are_split_below_a_servers_limit(file: Path, clock: TestClock) -> None:
    padding = b" " * 60_000
    bodies = [_body(new_id(clock)).strip().replace(b"{", b"{" + padding, 1) for _ in range(150)]
    with LocalServer(file, clock) as server, Accountant(server.url, clock=clock) as client:
        client.as_owner("owner").open("census", {"filter": "basic", "epsilon": "9"}, as_given=True)
        assert all(reply.granted for reply in client.ask_many(bodies))


def test_errors_of_a_server_are_in_their_places(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.open_for_olga("census", access="members")
        server.enrol("census", "ana", "analyst")
        with Accountant(server.url, token=server.tokens["ana"], clock=server.clock) as client:
            request = {"dataset": "census", "claim": "pure:0.01"}
            found = client.ask_many([request, {**request, "analyst": "ben"}, request])
    assert [isinstance(each, NotPermitted) for each in found] == [False, True, False]
    assert found[1].__notes__ == [
        f"request_id {found[1].request_id}: not charged: the ledger rejected it"
    ]
    assert found[0].granted
    assert found[2].granted


def test_a_line_over_the_rate_limit_is_sent_again(tmp_path: Path) -> None:
    with RolesServer(tmp_path, settings={"limit_per_name": 5}) as server:
        server.open_for_olga("census", access="anyone")
        with Accountant(server.url, token=server.tokens["ana"], clock=server.clock) as client:
            requests = [new_request(server.clock) for _ in range(56)]
            found = client.ask_many(requests)
    assert all(reply.granted for reply in found)
    assert [reply.request_id for reply in found] == [each["request_id"] for each in requests]


def test_after_a_cut_the_rest_is_sent_again(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server, cutting(server.url) as url:
        server.open(epsilon="9")
        with Accountant(url, clock=clock) as client:
            requests = [new_request(clock) for _ in range(300)]
            found = client.ask_many(requests)
        assert [reply.request_id for reply in found] == [each["request_id"] for each in requests]
        assert {str(reply.outcome) for reply in found} <= {"granted", "repeated"}
        assert all(reply.granted or reply.first.granted for reply in found)
        assert server.http.get("/datasets/census").json()["totals"]["epsilon"] == "0.03"


@contextlib.contextmanager
def cutting(url: str) -> Iterator[str]:
    """Run a proxy that cuts each response of its first three connections after some bytes."""
    import socket

    host, port = url.removeprefix("http://").split(":")
    cuts = [20_000, 3_000, 50_000]
    listener = socket.create_server(("127.0.0.1", 0))
    threads = list[threading.Thread]()

    def forward(client: socket.socket) -> None:
        cut = cuts.pop() if cuts else 1 << 30
        with client, socket.create_connection((host, int(port))) as server:
            back = threading.Thread(target=pump, args=(client, server, 1 << 30))
            back.start()
            pump(server, client, cut)
            for each in (client, server):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            back.join()

    def pump(source: socket.socket, sink: socket.socket, limit: int) -> None:
        with contextlib.suppress(OSError):
            while limit > 0 and (data := source.recv(min(limit, 65_536))):
                sink.sendall(data)
                limit -= len(data)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threads.append(threading.Thread(target=forward, args=(client,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in [accepting, *threads]:
            thread.join()


def test_a_garbled_response_never_reads_as_not_charged(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server, Proxy(server.url) as proxy:
        server.open()

        def check_case(case: str, is_line: bool) -> None:
            def garble(body: bytes) -> tuple[int, str, bytes]:
                status, media_type, content = GARBLED[case](body)
                if is_line and status == 200 and media_type == JSON:
                    return 200, "application/x-ndjson", content + b"\n"
                return status, media_type, content

            with Accountant(proxy.url, clock=clock) as client:
                request = new_request(clock, unit="person", neighbours="add_remove")
                proxy.garble = garble
                (found,) = client.ask_many([request], wait=0.3)
                assert isinstance(found, Unanswered), found
                assert found.request_id == request["request_id"]
                proxy.garble = None
                (again,) = client.ask_many([request])
                assert again.repeated
                assert again.first.granted

        lines = ("truncated", "null", "empty", "a list", "an object", "a wrong type")
        cases = [*((case, False) for case in GARBLED), *((case, True) for case in lines)]
        check_rows(check_case, cases)


def test_responses_of_a_proxy_in_another_order_are_rejected(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server, Proxy(server.url) as proxy:
        server.open()
        with Accountant(proxy.url, clock=clock) as client:
            requests = [
                new_request(clock, unit="person", neighbours="add_remove") for _ in range(3)
            ]

            def reversed_lines(body: bytes) -> tuple[int, str, bytes]:
                lines = body.splitlines(keepends=True)
                return 200, "application/x-ndjson", b"".join(reversed(lines))

            proxy.garble = reversed_lines
            found = client.ask_many(requests)
    assert [isinstance(each, Unanswered) for each in found] == [True, False, True]


def test_an_unreachable_ledger_leaves_every_request_unanswered(clock: TestClock) -> None:
    with Accountant("http://127.0.0.1:1", clock=clock) as client:
        found = client.ask_many([new_request(clock) for _ in range(50)], wait=0.2)
    assert all(isinstance(each, Unanswered) for each in found)
    assert len({each.request_id for each in found}) == 50  # type: ignore[union-attr]
