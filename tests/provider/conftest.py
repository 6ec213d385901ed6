"""Tests with a real OpenID provider: `make test-provider`, which needs node and npm.

They are left out of every run that does not ask for them by `-m provider`; asked for, they fail
where the programs are missing, and never skip.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "provider: runs a real OpenID provider; only when asked for")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this directory, and leave them out unless they are asked for."""
    ours = [item for item in items if _HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.provider)
    if "provider" not in config.option.markexpr:
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)
