from __future__ import annotations

import threading

import httpx

from accountant.records import decode_decision
from accountant.views.datasets import Alert, decode_alert
from streams.client import Accountant
from tests.patience import PATIENCE_S
from tests.streams.gateway.local_server import LocalServer

Event = tuple[str, bytes]
"""Type and data."""


class Stream(threading.Thread):
    """Reads a server's events until there are so many."""

    def __init__(self, server: LocalServer, count: int, query: str = "") -> None:
        super().__init__()
        self.url = f"{server.url}/events{query}"
        self.count = count
        self.connected = threading.Event()
        self.received: list[Event] = []
        self.start()
        assert self.connected.wait(PATIENCE_S)

    def run(self) -> None:
        kind = ""
        with httpx.stream("GET", self.url, timeout=PATIENCE_S, trust_env=False) as response:
            for line in response.iter_lines():
                self.connected.set()
                if line.startswith("event: "):
                    kind = line[7:]
                if line.startswith("data: "):
                    self.received.append((kind, line[6:].encode()))
                    if len(self.received) == self.count:
                        return


def test_the_event_stream_contains_decisions_and_alerts_with_ids(server: LocalServer) -> None:
    stream = Stream(server, 4)
    for epsilon in ("0.3", "0.6"):
        server.ask(claim={"type": "pure", "epsilon": epsilon})
    stream.join(PATIENCE_S)
    assert sorted(kind for kind, _ in stream.received) == ["alert", "alert", "decision", "decision"]
    crossed = [decode_alert(data) for kind, data in stream.received if kind == "alert"]
    crossing = [decode_decision(data) for kind, data in stream.received if kind == "decision"][1]
    assert [alert.threshold for alert in crossed] == list(crossing.crossed) == ["0.5", "0.8"]
    assert crossed[0] == Alert(
        alert_id="census/1/0.5",
        dataset="census",
        generation=1,
        threshold="0.5",
        spent_ratio=crossed[0].spent_ratio,
        decided_at=crossing.decided_at,
    )
    assert 0.9 <= crossed[0].spent_ratio < 0.91


def test_a_stream_with_crossed_true_begins_with_past_alerts(server: LocalServer) -> None:
    server.ask(claim={"type": "pure", "epsilon": "0.6"})
    stream = Stream(server, 3, "?crossed=true")
    server.ask(claim={"type": "pure", "epsilon": "0.3"})
    stream.join(PATIENCE_S)
    kinds = [kind for kind, _ in stream.received]
    ids = [decode_alert(data).alert_id for kind, data in stream.received if kind == "alert"]
    assert kinds[0] == "alert"
    assert set(ids) == {"census/1/0.5", "census/1/0.8"}
    plain = Stream(server, 1)
    server.ask(claim={"type": "pure", "epsilon": "0.001"})
    plain.join(PATIENCE_S)
    assert [kind for kind, _ in plain.received] == ["decision"], (
        "from now on, unless it is asked for"
    )


def test_an_http_client_separates_decisions_from_alerts(server: LocalServer) -> None:
    with Accountant(server.url) as ledger:
        decided, crossed = ledger.events(), ledger.alerts()
        found: list[object] = []
        readers = [
            threading.Thread(target=lambda each=each: found.append(next(each)))
            for each in (decided, crossed)
        ]
        for reader in readers:
            reader.start()
        # Alerts are sent once, so each round uses a dataset of its own.
        for number in range(200):
            server.open(f"d{number}")
            server.ask(dataset=f"d{number}", claim={"type": "pure", "epsilon": "0.5"})
            for reader in readers:
                reader.join(0.05)
            if len(found) == 2:
                break
        assert {type(each).__name__ for each in found} == {"Alert", "Decision"}


def test_decisions_are_streamed_as_they_become_visible(server: LocalServer) -> None:
    connected = threading.Event()
    received: list[bytes] = []

    def read() -> None:
        with httpx.stream(
            "GET", f"{server.url}/events", timeout=PATIENCE_S, trust_env=False
        ) as response:
            for line in response.iter_lines():
                connected.set()
                if line.startswith("data: "):
                    received.append(line[6:].encode())
                    if len(received) == 3:
                        return

    reader = threading.Thread(target=read)
    reader.start()
    assert connected.wait(PATIENCE_S)
    sent = [server.ask().content for _ in range(3)]
    reader.join(PATIENCE_S)
    assert received == sent
    assert decode_decision(received[0]).outcome == "granted"


def test_stopping_the_server_ends_the_streams(server: LocalServer) -> None:
    ended = threading.Event()
    connected = threading.Event()

    def read() -> None:
        with httpx.stream(
            "GET", f"{server.url}/events", timeout=PATIENCE_S, trust_env=False
        ) as response:
            for _ in response.iter_lines():
                connected.set()
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert connected.wait(PATIENCE_S)
    server.close()
    reader.join(PATIENCE_S)
    assert ended.is_set()
