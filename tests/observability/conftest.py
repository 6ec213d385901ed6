"""Tests that run a real Prometheus and Alertmanager: `make test-observability`.

They are left out of every run that does not ask for them by `-m observability`; asked for, they
fail where the programs are missing, and never skip.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.observability.programs import Programs

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "observability: runs a real Prometheus and Alertmanager; only when asked for"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this directory, and leave them out unless they are asked for."""
    ours = [item for item in items if _HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.observability)
        item.add_marker(pytest.mark.timeout(600))
    if "observability" not in config.option.markexpr:
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The programs, as scripts/observability.sh has unpacked them."""
    where = os.environ.get("OBSERVABILITY_BIN")
    if not where:
        pytest.fail("OBSERVABILITY_BIN names no directory: run `make test-observability`")
    return Programs(Path(where))
