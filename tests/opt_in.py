"""Skip tests unless their marker is selected: they need programs that few machines have."""

from __future__ import annotations

from pathlib import Path

import pytest


def mark_ours(
    config: pytest.Config, items: list[pytest.Item], here: Path, marker: str, limit_s: int
) -> None:
    """Mark the tests below a directory, and leave them out unless they are asked for.

    Args:
        limit_s: seconds that each may take.
    """
    ours = [item for item in items if here in item.path.parents]
    for item in ours:
        item.add_marker(getattr(pytest.mark, marker))
        item.add_marker(pytest.mark.timeout(limit_s))
    if marker not in config.option.markexpr:
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)
