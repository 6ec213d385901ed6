from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streams.gateway.door import Door, TestClock


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(scope="module")
def lasting_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A door like `door`, for many tests of what is never appended."""
    with Door(tmp_path_factory.mktemp("ledger") / "ledger.db", TestClock()) as opened:
        opened.open()
        yield opened


@pytest.fixture
def door(file: Path, clock: TestClock) -> Iterator[Door]:
    """A door with dataset `census` open: filter basic, epsilon 1."""
    with Door(file, clock) as opened:
        opened.open()
        yield opened
