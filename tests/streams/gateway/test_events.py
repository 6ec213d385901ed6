from __future__ import annotations

import threading

import httpx

from accountant.records import decode_decision
from tests.streams.door import Door


def test_decisions_are_streamed_as_they_become_visible(door: Door) -> None:
    connected = threading.Event()
    seen: list[bytes] = []

    def read() -> None:
        with httpx.stream("GET", f"{door.url}/events", timeout=60, trust_env=False) as response:
            for line in response.iter_lines():
                connected.set()
                if line.startswith("data: "):
                    seen.append(line[6:].encode())
                    if len(seen) == 3:
                        return

    reader = threading.Thread(target=read)
    reader.start()
    assert connected.wait(20)
    sent = [door.ask().content for _ in range(3)]
    reader.join(20)
    assert seen == sent
    assert decode_decision(seen[0]).outcome == "granted"


def test_stopping_the_door_ends_the_streams(door: Door) -> None:
    ended = threading.Event()
    connected = threading.Event()

    def read() -> None:
        with httpx.stream("GET", f"{door.url}/events", timeout=60, trust_env=False) as response:
            for _ in response.iter_lines():
                connected.set()
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert connected.wait(20)
    door.close()
    reader.join(20)
    assert ended.is_set()
