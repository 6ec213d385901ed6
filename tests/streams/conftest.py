from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.streams.clock import TestClock
    from tests.streams.gateway.local_server import LocalServer


@pytest.fixture
def clock() -> TestClock:
    from tests.streams.clock import TestClock

    return TestClock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server like `server`, for many tests of what is never appended."""
    from tests.streams.clock import TestClock
    from tests.streams.gateway.local_server import LocalServer

    with LocalServer(tmp_path_factory.mktemp("ledger") / "ledger.db", TestClock()) as opened:
        opened.open()
        yield opened


@pytest.fixture
def server(file: Path, clock: TestClock) -> Iterator[LocalServer]:
    """A server with dataset `census` open: filter basic, epsilon 1."""
    from tests.streams.gateway.local_server import LocalServer

    with LocalServer(file, clock) as opened:
        opened.open()
        yield opened
