"""The page docs/explanation/test-durations.md, as the committed run shows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.durations.record import ROOT
from tests.durations.report import Run, directories_table, slowest_table

PAGE: Final = ROOT / "docs" / "explanation" / "test-durations.md"
HEAD: Final = Path(__file__).with_name("page_head.md")
_SLOWEST: Final = 50
_FIXTURES: Final = 10


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    aligned = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, aligned, *rows))


def _code(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    return [(f"`{name.removeprefix('tests/')}`", *rest) for name, *rest in rows]


def page_of(run: Run) -> str:
    """Return the text of the page."""
    slowest = _code(slowest_table(run.tests, _SLOWEST))
    fixtures = _code(slowest_table(run.fixtures, _FIXTURES))
    return (
        "\n\n".join(
            [
                HEAD.read_text(encoding="utf-8").rstrip(),
                "## By directory",
                _table(("directory", "tests", "CPU s", "s"), directories_table(run)),
                f"## The {_SLOWEST} test functions that take most",
                _table(("test function", "tests", "CPU s", "s", "longest, s"), slowest),
                f"## The {_FIXTURES} fixtures that take most",
                _table(("fixture", "set-ups", "CPU s", "s", "longest, s"), fixtures),
            ]
        )
        + "\n"
    )
