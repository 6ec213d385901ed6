"""Streams of events as clients read them that are cut anywhere, also in the middle of an event."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.patience import PATIENCE_S

_HEAD = "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"


class Event(NamedTuple):
    """A whole event; `kind` is empty for a position alone."""

    id: str
    kind: str
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Refusal(Exception):
    """The answer was no stream."""

    def __init__(self, status: int, problem: Any) -> None:
        super().__init__(f"{status}: {problem}")
        self.status = status
        self.problem = problem


class Connection:
    """One connection to /events, read piece by piece."""

    def __init__(self, url: str, *, last: str = "", query: str = "") -> None:
        place = urlsplit(url)
        self._socket = socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S)
        more = f"Last-Event-ID: {last}\r\n" if last else ""
        self._socket.sendall(
            _HEAD.format(path=f"/events{query}", host=place.netloc, more=more).encode()
        )
        self._raw = b""
        self._text = b""
        self._left = 0  # of the chunk
        self.is_over = False
        status = self._until(b"\r\n\r\n")
        if b" 200 " not in status.partition(b"\r\n")[0]:
            while self._receive(65_536):
                pass
            raise Refusal(int(status.split()[1]), json.loads(self._raw))

    def _receive(self, most: int) -> bytes:
        more = self._socket.recv(most)
        self._raw += more
        return more

    def _until(self, end: bytes) -> bytes:
        while end not in self._raw:
            assert self._receive(1), self._raw
        found, _, self._raw = self._raw.partition(end)
        return found

    def read(self, most: int = 65_536) -> list[Event]:
        """Return the whole events that came with some more bytes."""
        if not self._receive(most):
            self.is_over = True
        while self._raw and not self.is_over:  # the answer comes in chunks
            if not self._left:
                size, end, rest = self._raw.removeprefix(b"\r\n").partition(b"\r\n")
                if not end:
                    break
                self._left, self._raw = int(size, 16), rest
                self.is_over = not self._left
            some = self._raw[: self._left]
            self._raw = self._raw[len(some) :]
            self._left -= len(some)
            self._text += some
        *whole, self._text = self._text.split(b"\n\n")
        return [event for each in whole if (event := _event(each)) is not None]

    def close(self) -> None:
        self._socket.close()


def _event(block: bytes) -> Event | None:
    fields = dict(
        line.split(": ", 1) for line in block.decode().splitlines() if not line.startswith(":")
    )
    if not fields:
        return None
    return Event(fields.get("id", ""), fields.get("event", ""), fields.get("data", ""))


def read_until(
    url: str, enough: Callable[[list[Event]], bool], *, last: str = "", query: str = ""
) -> list[Event]:
    """Return events, from one connection, until there are enough."""
    connection = Connection(url, last=last, query=query)
    found: list[Event] = []
    try:
        while not enough(found):
            assert not connection.is_over, found
            found += connection.read()
    finally:
        connection.close()
    return found


def read_with_cuts(
    urls: list[str],
    last: str,
    enough: Callable[[list[Event]], bool],
    *,
    chance: random.Random,
    query: str = "",
    most: int = 50_000,
) -> tuple[list[Event], int]:
    """Return events that are not the position alone, and how often their stream was cut.

    Each connection is cut after some bytes, and the next one begins with the last id of a whole
    event, at any of the addresses.

    Args:
        most: bytes of one connection.
    """
    found: list[Event] = []
    cuts = 0
    while not enough(found):
        connection = Connection(chance.choice(urls), last=last, query=query)
        left = min(most, chance.choice([1, 300, 2_000, 10_000, 50_000]))
        while left > 0 and not enough(found) and not connection.is_over:
            some = min(left, chance.choice([1, 100, 5_000]))
            left -= some
            for event in connection.read(some):
                last = event.id or last
                if event.kind:
                    found.append(event)
        connection.close()
        cuts += 1
    return found, cuts
