from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streams.auth.roles_server import RolesServer
from tests.streams.pages.dataset.pages_server import PagesServer


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagesServer]:
    """A server for one test, which may write."""
    with PagesServer(tmp_path) as made:
        made.furnish()
        yield made


@pytest.fixture(scope="module")
def shared_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server for tests that write nothing."""
    with PagesServer(tmp_path_factory.mktemp("paged")) as made:
        made.furnish()
        yield made


@pytest.fixture
def roles_server(tmp_path: Path) -> Iterator[RolesServer]:
    """A server without a dataset, for one test."""
    with RolesServer(tmp_path) as made:
        yield made
