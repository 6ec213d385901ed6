"""The pages about tests state how often tests repeat, and which commands run them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.nightly import NIGHTLY, rounds

ROOT = Path(__file__).parents[2]
EXPLANATION = ROOT / "docs" / "explanation"
PAGE = (EXPLANATION / "testing.md").read_text(encoding="utf-8")
TABLE = (EXPLANATION / "test-repetitions.md").read_text(encoding="utf-8")


def number(text: str) -> int:
    return int(re.sub("[_,]", "", text))


def test_the_table_has_exactly_the_numbers_of_the_code():
    rows = re.findall(r"^\| `(test_\w+\.py)` \| ([\d,]+) \| ([\d,]+) \|", TABLE, re.MULTILINE)
    calls = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            # A call that is not of two numbers fails here: the table could not show it.
            for call in re.findall(r"(?<!def )(?<!\.)\brounds\(.*", path.read_text("utf-8")):
                few, many = re.match(r"rounds\(([\d_]+), ([\d_]+)\)", call).groups()
                calls.append((path.name, number(few), number(many)))
    assert sorted((file, number(few), number(many)) for file, few, many in rows) == sorted(calls)
    assert all(0 < few < many for _, few, many in calls)


def test_nightly_runs_repeat_more():
    assert rounds(2, 5) == (5 if NIGHTLY else 2)


def test_every_command_of_the_page_exists():
    recipes = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = re.findall(r"`make ([a-z-]+)", PAGE)
    assert "nightly" in named
    assert set(named) <= set(recipes)
