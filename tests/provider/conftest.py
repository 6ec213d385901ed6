"""Tests of a door with a real OpenID provider: `make test-provider`.

They are left out of every run that does not ask for them by `-m provider`; asked for, they fail
where the provider is missing, and never skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.real_provider import Key, RealProvider

_HERE = Path(__file__).parent
_LIMIT_S = 300


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "provider: runs a real OpenID provider; only when asked for")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this directory, and leave them out unless they are asked for."""
    ours = [item for item in items if _HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.provider)
        item.add_marker(pytest.mark.timeout(_LIMIT_S))
    if "provider" not in config.option.markexpr:
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)


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
    return Key.rsa("first")


@pytest.fixture
def provider(modules: Path, tmp_path: Path, first: Key) -> Iterator[RealProvider]:
    """A provider of the test's own, with one key."""
    with RealProvider(modules, tmp_path / "provider") as running:
        running.start(first)
        yield running
