"""Tests of a server with a real OpenID provider: `make test-provider`.

They are left out of every run that does not ask for them by `-m provider`; asked for, they fail
where the provider is missing, and never skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.opt_in import is_left_out, mark_ours

if TYPE_CHECKING:
    from tests.provider.real_provider import Key, RealProvider

OPENS = ()

_HERE = Path(__file__).parent
_LIMIT_S = 300


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "provider: runs a real OpenID provider; only when asked for")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(config, collection_path, "provider")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_ours(config, items, _HERE, "provider", _LIMIT_S)


@pytest.fixture(scope="session")
def modules() -> Path:
    """The directory into which scripts/provider.sh has installed the provider."""
    where = Path(os.environ.get("PROVIDER_MODULES", "")).resolve()
    if not (where / "oidc-provider").is_dir():
        pytest.fail("PROVIDER_MODULES has no provider: run `make test-provider`")
    return where


@pytest.fixture(scope="session")
def first() -> Key:
    """A key of RSA, which takes long to make: one for all tests."""
    from tests.provider.real_provider import Key

    return Key.rsa("first")


@pytest.fixture
def provider(modules: Path, tmp_path: Path, first: Key) -> Iterator[RealProvider]:
    """A provider of the test's own, with one key."""
    from tests.provider.real_provider import RealProvider

    with RealProvider(modules, tmp_path / "provider") as running:
        running.start(first)
        yield running
