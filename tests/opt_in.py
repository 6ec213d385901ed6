"""Leave tests out unless their marker is selected: they need programs that few machines have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def is_left_out(config: pytest.Config, path: Path, marker: str) -> bool | None:
    """Return True for a test file that need not be imported: its marker is not selected.

    For `pytest_ignore_collect`, which does not ask about files that the command line names.
    """
    is_test = path.name.startswith("test_")
    return True if is_test and marker not in config.option.markexpr else None


def mark_ours(
    config: pytest.Config, items: list[pytest.Item], here: Path, marker: str, limit_s: int
) -> None:
    """Mark the tests below a directory, and leave them out unless they are asked for.

    Args:
        limit_s: seconds that each may take.
    """
    inside = f"{here}{os.sep}"
    ours, others = [], []
    for item in items:
        (ours if str(item.path).startswith(inside) else others).append(item)
    for item in ours:
        item.add_marker(getattr(pytest.mark, marker))
        item.add_marker(pytest.mark.timeout(limit_s))
    if ours and marker not in config.option.markexpr:
        items[:] = others
        config.hook.pytest_deselected(items=ours)
