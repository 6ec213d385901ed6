from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streams.auth.roles_door import RolesDoor
from tests.streams.pages.dataset.paged_door import PagedDoor


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedDoor]:
    """A door for one test, which may write."""
    with PagedDoor(tmp_path) as made:
        made.furnish()
        yield made


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagedDoor]:
    """A door for tests that write nothing."""
    with PagedDoor(tmp_path_factory.mktemp("paged")) as made:
        made.furnish()
        yield made


@pytest.fixture
def roles_door(tmp_path: Path) -> Iterator[RolesDoor]:
    """A door without a dataset, for one test."""
    with RolesDoor(tmp_path) as made:
        yield made
