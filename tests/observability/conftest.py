"""Tests that run a real Prometheus and Alertmanager: `make test-observability`.

They are left out of every run that does not ask for them by `-m observability`; asked for, they
fail where the programs are missing, and never skip.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka import conftest as kafka
from tests.opt_in import is_left_out, mark_ours

if TYPE_CHECKING:
    from tests.observability.programs import Programs

OPENS = ()

_HERE = Path(__file__).parent
secured_broker = kafka.secured_broker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "observability: runs a real Prometheus and Alertmanager; only when asked for"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(config, collection_path, "observability")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_ours(config, items, _HERE, "observability", 600)


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The programs, as scripts/observability.sh has unpacked them."""
    from tests.observability.programs import Programs

    where = os.environ.get("OBSERVABILITY_BIN")
    if not where:
        pytest.fail("OBSERVABILITY_BIN names no directory: run `make test-observability`")
    return Programs(Path(where))
