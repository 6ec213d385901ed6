from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streams.auth.known_door import KnownDoor
from tests.streams.auth.provider import LocalProvider
from tests.streams.auth.roles_door import RolesDoor
from tests.streams.pages.people import Person


@pytest.fixture
def census(tmp_path: Path) -> Iterator[RolesDoor]:
    """A door whose only dataset is olga's and for members, of whom ana is one."""
    with RolesDoor(tmp_path) as made:
        made.open_for_olga("census", access="members")
        made.enrol("census", "ana", "analyst")
        yield made


@pytest.fixture
def ana(census: RolesDoor) -> Iterator[Person]:
    """Ana at her browser, signed in."""
    with Person(census) as person:
        assert person.sign_in(census.tokens["ana"]).status_code == 303
        yield person


@pytest.fixture
def anybody(census: RolesDoor) -> Iterator[Person]:
    """Somebody at a browser who has not signed in."""
    with Person(census) as person:
        yield person


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as made:
        yield made


@pytest.fixture
def known(tmp_path: Path, provider: LocalProvider) -> Iterator[KnownDoor]:
    """A door that knows static tokens and those of a provider."""
    with KnownDoor(tmp_path, provider=provider) as made:
        yield made
