from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streams.server.app import Pages
    from tests.streams.auth.roles_server import RolesServer
    from tests.streams.pages.dataset.pages_server import PagesServer


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagesServer]:
    """A server for one test, which may write."""
    from tests.streams.pages.dataset.pages_server import PagesServer

    with PagesServer(tmp_path) as made:
        made.furnish()
        yield made


@pytest.fixture(scope="module")
def shared_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server for tests that write nothing."""
    from tests.streams.pages.dataset.pages_server import PagesServer

    with PagesServer(tmp_path_factory.mktemp("paged")) as made:
        made.furnish()
        yield made


@pytest.fixture
def roles_server(tmp_path: Path, pages: Pages) -> Iterator[RolesServer]:
    """A server without a dataset, for one test."""
    from tests.streams.auth.roles_server import RolesServer

    with RolesServer(tmp_path, pages=pages) as made:
        yield made
