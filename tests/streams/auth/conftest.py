from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streams.server.app import Pages
    from tests.streams.auth.provider import LocalProvider
    from tests.streams.auth.roles_server import RolesServer
    from tests.streams.auth.token_server import TokenServer


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    from tests.streams.auth.provider import LocalProvider

    with LocalProvider() as made:
        yield made


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[LocalProvider]:
    from tests.streams.auth.provider import LocalProvider

    with LocalProvider() as made:
        yield made


@pytest.fixture(scope="module")
def token_server(
    tmp_path_factory: pytest.TempPathFactory, shared_provider: LocalProvider, pages: Pages | None
) -> Iterator[TokenServer]:
    """A server that knows static tokens and those of a provider, for tests that append nothing."""
    from tests.streams.auth.token_server import TokenServer

    directory = tmp_path_factory.mktemp("known")
    with TokenServer(directory, provider=shared_provider, pages=pages) as made:
        yield made


@pytest.fixture
def own(tmp_path: Path, pages: Pages | None) -> Iterator[TokenServer]:
    """A server that knows static tokens alone, for one test."""
    from tests.streams.auth.token_server import TokenServer

    with TokenServer(tmp_path, pages=pages) as made:
        yield made


@pytest.fixture
def census(tmp_path: Path, pages: Pages | None) -> Iterator[RolesServer]:
    """A server with one dataset for members: olga owns it, ana is an analyst."""
    from tests.streams.auth.roles_server import RolesServer

    with RolesServer(tmp_path, pages=pages) as made:
        made.open_for_olga("census", access="members")
        made.enrol("census", "ana", "analyst")
        yield made
