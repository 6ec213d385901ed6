"""The tests of PostgreSQL find the bugs that are planted in its reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.planted import Planted, all_planted, assert_caught

BUGS = [bug for bug in all_planted() if bug.needs_postgresql]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Planted, tmp_path: Path) -> None:
    assert_caught(bug, within=tmp_path)


def test_bugs_are_planted() -> None:
    assert len(BUGS) >= 5
