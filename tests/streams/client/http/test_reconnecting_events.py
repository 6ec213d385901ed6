"""A client's event stream reconnects where it was cut; a server that stays down is an error."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from accountant.records import Decision
from accountant.views.datasets import Alert
from streams.client import Accountant, Gone, Refused
from streams.client.http.reconnecting_events import reconnecting_events
from streams.embedded.ledger_file import read_decisions
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill
from tests.streams.gateway.local_server import LocalServer

SMALL = {"type": "pure", "epsilon": "0.001"}


class Relay:
    """Passes bytes on to a server, and cuts each connection after some of them."""

    def __init__(self, url: str, *, chance: random.Random) -> None:
        self._to = int(url.rpartition(":")[2])
        self._chance = chance
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        left = self._chance.choice([100, 700, 3_000, 6_000])
        # Either end may leave at any moment, the last one with the test.
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._to)) as server,
            client,
        ):
            server.sendall(client.recv(65_536))
            while left > 0 and (some := server.recv(min(left, 1_000))):
                left -= len(some)
                client.sendall(some)
        self.cuts += 1

    def close(self) -> None:
        self._listening.close()


class Reader(threading.Thread):
    """Reads a client's events of one kind."""

    def __init__(self, url: str, kind: str) -> None:
        super().__init__(daemon=True)
        self.found: queue.Queue[Any] = queue.Queue()
        self._ledger = Accountant(url)
        self._events: Iterator[Any] = getattr(self._ledger, kind)()
        self.start()

    def run(self) -> None:
        try:
            for event in self._events:
                self.found.put(event)
        except Exception as error:  # handed to the test
            self.found.put(error)

    def next(self) -> Any:
        return self.found.get(timeout=PATIENCE_S)


def wait_for_first_events(server: LocalServer, *readers: Reader) -> None:
    """Return once each reader has had an event: each round crosses thresholds of a dataset."""
    for number in range(600):
        if all(not reader.found.empty() for reader in readers):
            return
        server.open(f"begin{number}")
        server.ask(dataset=f"begin{number}", claim={"type": "pure", "epsilon": "0.9"})
        threading.Event().wait(0.05)
    pytest.fail("the readers have not begun")


def test_a_reconnecting_client_gets_each_event_once(server: LocalServer, file: Path) -> None:
    relay = Relay(server.url, chance=random.Random(5))
    decisions, alerts = Reader(relay.url, "events"), Reader(relay.url, "alerts")
    wait_for_first_events(server, decisions, alerts)
    for number in range(60):
        if number % 10 == 0:
            server.open(f"d{number}")
        server.ask(dataset=f"d{number // 10 * 10}", claim={"type": "pure", "epsilon": "0.1"})
    server.open("last", alert_at=["0.1"])
    server.ask(dataset="last", claim={"type": "pure", "epsilon": "0.5"})
    found: list[Decision] = []
    while not found or found[-1].dataset != "last" or found[-1].outcome != "granted":
        found.append(decisions.next())
    received: list[Alert] = []
    while not received or received[-1].dataset != "last":
        received.append(alerts.next())
    relay.close()
    assert relay.cuts > 10
    log = list(read_decisions(file, first=found[0].partition_sequence))
    assert [each.partition_sequence for each in found] == list(
        range(found[0].partition_sequence, found[0].partition_sequence + len(log))
    )
    crossed = [f"{each.dataset}/1/{threshold}" for each in found for threshold in each.crossed]
    ids = [each.alert_id for each in received]
    assert len(set(ids)) == len(ids)
    at = crossed.index(ids[0]) if ids[0] in crossed else 0
    assert ids[-len(crossed[at:]) :] == crossed[at:]


def test_the_client_reconnects_to_a_restarted_server(file: Path, clock: TestClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = Settings(port=port)
    with LocalServer(file, clock, settings) as server:
        server.open()
        reader = Reader(server.url, "events")
        wait_for_first_events(server, reader)
        server.ask(claim=SMALL)
    with LocalServer(file, clock, settings) as server:
        for _ in range(3):
            server.ask(claim=SMALL)
        last = server.last_sequence()
    with LocalServer(file, clock, settings):
        numbers = [reader.next().partition_sequence]
        while numbers[-1] < last:
            numbers.append(reader.next().partition_sequence)
    assert numbers == list(range(numbers[0], last + 1))


def test_a_stream_that_cannot_go_on_says_why(file: Path, clock: TestClock, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(port=taken.getsockname()[1])
    with LocalServer(file, clock, settings) as server:
        server.open("begin")
        reader, other = Reader(server.url, "events"), Reader(server.url, "alerts")
        wait_for_first_events(server, reader, other)
    fill(file, clock)
    archive_file(file, clock, tmp_path / "old.jsonl.gz")
    with LocalServer(file, clock, settings):
        for each in (reader, other):
            while not isinstance(why := each.next(), Exception):
                pass
            assert isinstance(why, Gone)
            assert "GET /datasets/{dataset}/requests?after=" in str(why)


def test_another_ledger_at_the_same_address_is_refused(
    file: Path, clock: TestClock, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(port=taken.getsockname()[1])
    with LocalServer(file, clock, settings) as server:
        server.open()
        reader = Reader(server.url, "events")
        wait_for_first_events(server, reader)
    with LocalServer(tmp_path / "other.db", clock, settings):
        while not isinstance(why := reader.next(), Exception):
            pass
    assert isinstance(why, Refused)
    assert "Last-Event-ID" in str(why)


async def test_each_attempt_has_its_own_connection() -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for asked in itertools.count(1):
            with contextlib.suppress(asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                body = (
                    f"id: {connections}.{asked}\nevent: decision\ndata: {connections}.{asked}\n\n"
                )
                sent = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                writer.write(sent.encode())
                if b"connection: close" not in head.lower():
                    continue
            break
        writer.close()

    async def check(_response: httpx.Response) -> None:
        """Take every answer."""

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        events = reconnecting_events(http, check, "decision")
        assert [await anext(events) for _ in range(3)] == [b"1.1", b"2.1", b"3.1"]
        await events.aclose()
