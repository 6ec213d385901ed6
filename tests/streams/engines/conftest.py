"""SmartNoise pins its own version of OpenDP, so it has an environment: `make test-smartnoise`.

Its tests run only if the mark selects them. Then they fail where SmartNoise is missing; they never
skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.client import Accountant
from tests.streams.gateway.local_server import TestClock


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "smartnoise: needs SmartNoise; only when asked for")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "smartnoise" not in config.option.markexpr:
        ours = [item for item in items if item.get_closest_marker("smartnoise")]
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    """A ledger with `census` open: filter basic, epsilon 1, for units that are replaced."""
    with Accountant(f"sqlite:///{file}", clock=clock) as client:
        policy = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "neighbours": "replace"}
        client.open("census", policy, by="owner", as_given=True)
        yield client
