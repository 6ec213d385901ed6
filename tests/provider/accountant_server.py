"""A server in a process of its own, which knows people by the tokens of a real provider."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
import msgspec

from streams.clock import SystemClock
from tests.faults.server_process import ServerProcess
from tests.provider.real_provider import AUDIENCE, RealProvider
from tests.streams.gateway.records import opening, request

CLOCK = SystemClock()
_PATIENCE_S = 60.0


class Answered(NamedTuple):
    """How the server answered a token, and between which seconds of the machine's clocks."""

    token: str
    status: int
    sent: float
    received: float


class AccountantServer:
    """`accountant serve` with `ACCOUNTANT_OIDC_...`; olga is administrator.

    Args:
        port: the port to serve at, 0 for a free one.

    Attributes:
        log: what the server has written about itself.
        address: where it listens, once it runs.
    """

    def __init__(
        self, home: Path, provider: RealProvider, *, port: int = 0, **more: object
    ) -> None:
        home.mkdir()
        self.log = home / "server.log"
        settings = {
            "url": f"sqlite:///{home / 'ledger.db'}",
            "oidc_issuer": provider.issuer,
            "oidc_audience": AUDIENCE,
            "administrators": "olga",
            **more,
        }
        environment = {f"ACCOUNTANT_{name.upper()}": str(each) for name, each in settings.items()}
        self._process = ServerProcess("serve", self.log, environment, port=port)
        self._shown: set[str] = set()

    def __enter__(self) -> Self:
        self._process.start()
        self.address = self._process.address
        self._http = httpx.Client(base_url=self.address, timeout=_PATIENCE_S, trust_env=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.kill()
        log = self.log.read_text()
        assert "Traceback" not in log, log[-4000:]
        # By its signature: the beginning of each token of a provider is the same.
        assert not any(token[-40:] in log for token in self._shown)

    def get(self, path: str, token: str) -> httpx.Response:
        """Ask with a token."""
        self._shown.add(token)
        return self._http.get(path, headers={"Authorization": f"Bearer {token}"})

    def health(self) -> tuple[int, int]:
        """Return how it answers strangers who ask whether it is well."""
        health, ready = (self._http.get(path).status_code for path in ("/healthz", "/readyz"))
        return health, ready

    def status(self, token: str) -> int:
        """Return the server's answer of /me to a token."""
        return self.get("/me", token).status_code

    def timed_status(self, token: str) -> Answered:
        """Return the same with its moments, by the clock that only rises."""
        sent = time.monotonic()
        return Answered(token, self.status(token), sent, time.monotonic())

    def post(self, path: str, body: object, token: str) -> httpx.Response:
        """Post a body with a token."""
        self._shown.add(token)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return self._http.post(path, content=msgspec.json.encode(body), headers=headers)

    def open(self, dataset: str, token: str) -> httpx.Response:
        """Open a dataset, in which everybody may ask, as olga."""
        body = {**opening(CLOCK, dataset, access="anyone"), "by": "olga"}
        return self.post("/datasets", body, token)

    def request(self, analyst: str, dataset: str, token: str) -> httpx.Response:
        """Ask for a release."""
        return self.post("/requests", request(CLOCK, analyst=analyst, dataset=dataset), token)


@contextlib.contextmanager
def asking(server: AccountantServer, tokens: list[str]) -> Iterator[list[Answered]]:
    """Ask with each token in turn, in two threads, until the block ends.

    Args:
        tokens: may get more of them meanwhile.

    Returns: what was answered, in the order of each thread; it grows.
    """
    stop, seen = threading.Event(), list[Answered]()

    def ask() -> None:
        while not stop.is_set():
            for token in tuple(tokens):
                seen.append(server.timed_status(token))
            stop.wait(0.01)  # what it waits for needs a processor, too

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        stop.set()
        for each in threads:
            each.join(_PATIENCE_S)
        assert not any(each.is_alive() for each in threads)


def until(what: str, holds: Callable[[], Any]) -> None:
    """Return once something holds; give up after long enough for any machine."""
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.05)
