"""Tests of sources that a real server has: `make test-sources`.

They are left out of every run that does not ask for them by `-m sources`; asked for, they fail
where the server is missing, and never skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.opt_in import is_left_out, mark_ours

if TYPE_CHECKING:
    from tests.sources.postgresql_server import PostgresqlServer

OPENS = ()

_HERE = Path(__file__).parent
_LIMIT_S = 300


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sources: runs a real PostgreSQL; only when asked for")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(config, collection_path, "sources")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_ours(config, items, _HERE, "sources", _LIMIT_S)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresqlServer]:
    """A server, of the programs that scripts/postgresql.sh has found."""
    from tests.sources.postgresql_server import PostgresqlServer

    programs = os.environ.get("POSTGRESQL_BIN")
    if not programs:
        pytest.fail("POSTGRESQL_BIN names no directory: run `make test-sources`")
    with PostgresqlServer(Path(programs)) as running:
        yield running
