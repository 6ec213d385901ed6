"""The order of the tests: the files that took longest come first, each in one piece.

A worker that gets the longest file last would end long after the others. Tests of one file follow
each other, so that the fixtures of a module are set up once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def longest_files_first(
    items: list[pytest.Item], recorded: Mapping[str, tuple[float, float]]
) -> None:
    """Sort the tests in place; files without a record come first.

    Args:
        recorded: the CPU seconds and the seconds of each test function.
    """
    files: dict[str, float] = defaultdict(float)
    for name, (_, wall) in recorded.items():
        files[name.partition("::")[0]] += wall
    order = {
        file: -files.get(file, inf) for file in {item.nodeid.partition("::")[0] for item in items}
    }
    items.sort(key=lambda item: (order[file := item.nodeid.partition("::")[0]], file))
