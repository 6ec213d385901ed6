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
    from tests.streams.pages.people import Person


@pytest.fixture(scope="session")
def pages() -> Pages:
    from streams.pages import PAGES

    return PAGES


@pytest.fixture
def census(tmp_path: Path, pages: Pages) -> Iterator[RolesServer]:
    """A server with one dataset for members: olga owns it, ana is an analyst."""
    from tests.streams.auth.roles_server import RolesServer

    with RolesServer(tmp_path, pages=pages) as made:
        made.open_for_olga("census", access="members")
        made.enrol("census", "ana", "analyst")
        yield made


@pytest.fixture
def ana(census: RolesServer) -> Iterator[Person]:
    """Ana at her browser, signed in."""
    from tests.streams.pages.people import Person

    with Person(census) as person:
        assert person.sign_in(census.tokens["ana"]).status_code == 303
        yield person


@pytest.fixture
def anybody(census: RolesServer) -> Iterator[Person]:
    """Somebody at a browser who has not signed in."""
    from tests.streams.pages.people import Person

    with Person(census) as person:
        yield person


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    from tests.streams.auth.provider import LocalProvider

    with LocalProvider() as made:
        yield made


@pytest.fixture
def token_server(tmp_path: Path, provider: LocalProvider, pages: Pages) -> Iterator[TokenServer]:
    """A server that knows static tokens and those of a provider."""
    from tests.streams.auth.token_server import TokenServer

    with TokenServer(tmp_path, provider=provider, pages=pages) as made:
        yield made
