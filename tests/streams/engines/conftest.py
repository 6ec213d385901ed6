"""Two engines have an environment each: `make test-smartnoise`, `make test-opacus`.

SmartNoise pins its own version of OpenDP, and Opacus needs PyTorch. Their tests run only if their
mark selects them. Then they fail where the engine is missing; they never skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streams.client import Accountant
    from tests.streams.clock import TestClock


ENGINES = {"smartnoise": "SmartNoise", "opacus": "Opacus"}


def pytest_configure(config: pytest.Config) -> None:
    for mark, engine in ENGINES.items():
        config.addinivalue_line("markers", f"{mark}: needs {engine}; only when asked for")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {mark for mark in ENGINES if mark not in config.option.markexpr}
    inside = f"{Path(__file__).parent}{os.sep}"
    ours, others = [], []
    for item in items:
        is_ours = str(item.path).startswith(inside) and any(
            mark.name in left_out for mark in item.iter_markers()
        )
        (ours if is_ours else others).append(item)
    if ours:
        items[:] = others
        config.hook.pytest_deselected(items=ours)


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    """A ledger with `census` open: filter basic, epsilon 1, for units that are replaced."""
    from streams.client import Accountant

    with Accountant(f"sqlite:///{file}", clock=clock) as client:
        policy = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "neighbours": "replace"}
        client.as_owner("owner").open("census", policy, as_given=True)
        yield client
