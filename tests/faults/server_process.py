"""An HTTP server in a process of its own, which the test kills, and clients that keep asking."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx

from tests.faults.oracle import Answer
from tests.forks import commands
from tests.patience import PATIENCE_S

STARTS = ("streams.cli", "streams.serve")
_HEADERS: Final = {"content-type": "application/json", "prefer": "wait=2"}


class ServerProcess:
    """`accountant serve` or `accountant gateway`, on a port of its own at each start.

    Args:
        port: the port instead; 0 for a free one.
    """

    def __init__(
        self, command: str, log: Path, settings: Mapping[str, str], *, port: int = 0
    ) -> None:
        self._command = (command, "--port", str(port))
        mine = {name: value for name, value in os.environ.items() if "ACCOUNTANT_" not in name}
        self._environment = {**mine, **settings}
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and return once it listens."""
        with self._log.open("a") as log:
            self._process = commands.start(
                *self._command,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening at "), self._log.read_text()[-4000:]
        self.address = line.split()[-1]

    def kill(self) -> None:
        """End it by SIGKILL. Safe to repeat."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class Clients:
    """Threads that post requests, and keep every answer.

    Args:
        draw: returns the next body; called by one thread at a time.

    Attributes:
        sent: every body that may have reached the ledger.
        answers: what was answered.
        decided: how many of the answers give a decision.
    """

    def __init__(self, draw: Callable[[], bytes], threads: int = 3) -> None:
        self._draw = draw
        self._threads = threads
        self._lock = threading.Lock()
        self.sent: list[bytes] = []
        self.answers: list[Answer] = []
        self.decided = 0

    def open(self, address: str, body: bytes) -> None:
        """Open a dataset; a repeat is as good."""
        self._post(httpx.Client(base_url=address, timeout=PATIENCE_S), "/datasets", body)

    @contextlib.contextmanager
    def asking(self, address: Callable[[], str]) -> Iterator[None]:
        """Ask until the block ends, across kills: a lost answer is asked for again.

        Args:
            address: its present address.
        """
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._ask, args=(address, stop)) for _ in range(self._threads)
        ]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            stop.set()
            for each in threads:
                each.join(PATIENCE_S)
            assert not any(each.is_alive() for each in threads)

    def wait_for(self, count: int) -> None:
        """Return once so many more requests are decided; a response that gives no decision is none.

        An undecided one would end the wait before a slow ledger has done anything.
        """
        enough = self.decided + count
        deadline = time.monotonic() + PATIENCE_S
        while self.decided < enough:
            assert time.monotonic() < deadline, f"{self.decided} of {enough} requests are decided"
            time.sleep(0.01)

    def wait_for_kinds(self, missing: Callable[[Sequence[Answer]], object]) -> None:
        """Return once no kind of answer is missing; how fast the ledger answers does not matter."""
        while missing(self.answers.copy()):
            self.wait_for(5)

    def _ask(self, address: Callable[[], str], stop: threading.Event) -> None:
        client, where, body = httpx.Client(timeout=10), "", b""
        while not stop.is_set():
            if where != address():
                client.close()
                where = address()
                client = httpx.Client(base_url=where, timeout=10)
            if not body:
                with self._lock:
                    body = self._draw()
            if self._post(client, "/requests", body):
                body = b""
            else:
                stop.wait(0.02)
        client.close()

    def _post(self, client: httpx.Client, path: str, body: bytes) -> bool:
        with self._lock:
            self.sent.append(body)
        try:
            answer = client.post(path, content=body, headers=_HEADERS)
        except httpx.HTTPError:
            return False  # it may have been decided, and is sent again
        is_decided = answer.status_code not in {202, 503}
        with self._lock:
            self.answers.append(Answer(body, answer.status_code, answer.content))
            self.decided += is_decided
        return is_decided


class Bodies:
    """What clients ask: new requests, some again, some with another body, some at the edges.

    Args:
        make: a body of a new id; `again` may get another purpose.
        edge: the next body whose id lies at an edge.
    """

    def __init__(
        self,
        make: Callable[[], bytes],
        edge: Callable[[], bytes],
        another: Callable[[bytes], bytes],
        seed: int,
    ) -> None:
        self._make, self._edge, self._another = make, edge, another
        self._chance = random.Random(seed)
        self._sent: list[bytes] = []

    def draw(self) -> bytes:
        """Return the next body."""
        chance = self._chance.random()
        if chance < 0.2:
            return self._edge()
        if chance < 0.4 and self._sent:
            old = self._chance.choice(self._sent)
            return self._another(old) if chance < 0.25 else old
        self._sent.append(self._make())
        return self._sent[-1]
