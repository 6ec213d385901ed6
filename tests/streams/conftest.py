from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streams.server.app import Pages
    from tests.streams.clock import TestClock
    from tests.streams.gateway.local_server import LocalServer


@pytest.fixture(scope="session")
def pages() -> Pages | None:
    """What the servers of fixtures have besides the API: nothing.

    A file or a directory whose tests look at pages overrides it, and gives `streams.pages.PAGES`.
    """
    return None


@pytest.fixture
def clock() -> TestClock:
    from tests.streams.clock import TestClock

    return TestClock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(scope="module")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, pages: Pages | None
) -> Iterator[LocalServer]:
    """A server like `server`, for many tests of what is never appended."""
    from tests.streams.clock import TestClock
    from tests.streams.gateway.local_server import LocalServer

    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    with LocalServer(path, TestClock(), pages=pages) as opened:
        opened.open()
        yield opened


@pytest.fixture
def server(file: Path, clock: TestClock, pages: Pages | None) -> Iterator[LocalServer]:
    """A server with dataset `census` open: filter basic, epsilon 1."""
    from tests.streams.gateway.local_server import LocalServer

    with LocalServer(file, clock, pages=pages) as opened:
        opened.open()
        yield opened
