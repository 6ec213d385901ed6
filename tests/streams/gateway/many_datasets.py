"""A server with more datasets than a page shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from streams.embedded.service import EmbeddedService
from streams.server.app import Pages
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import closing, opening

NAMES: Final = [f"dataset-{number:03}" for number in range(503)]


async def _open_all(service: EmbeddedService, clock: TestClock) -> None:
    bodies = [msgspec.json.encode(opening(clock, name)) for name in NAMES]
    answers = await asyncio.gather(*[service.submit("admin", body, wait=20) for body in bodies])
    assert all(answer.decision for answer in answers)


@contextmanager
def many_datasets(path: Path, *, pages: Pages | None = None) -> Iterator[LocalServer]:
    """Run a server with 503 datasets; 007 has spent most, 005 is exhausted and 003 closed."""
    clock = TestClock()
    with LocalServer(path, clock, pages=pages) as server:
        asyncio.run(_open_all(server.service, clock))
        for name, epsilon in ((5, "1"), (9, "0.3"), (7, "0.7"), (3, "0.9")):
            server.ask(dataset=NAMES[name], claim={"type": "pure", "epsilon": epsilon})
        server.post(f"/datasets/{NAMES[3]}/close", closing(clock, NAMES[3]))
        yield server
