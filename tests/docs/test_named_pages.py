"""Every page of the documentation that code, alerts, manifests and errors name exists."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from tests.docs.test_links import anchors

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"docs/(?:[\w-]+/)*[\w-]+\.md(?:#[\w-]+)?")
# What these say of pages is about another tree, or made of parts.
ELSEWHERE = ("tests/docs/", "tests/mutants/", "tests/adding/", "tests/selection/")
TEXTS = {
    *(".py", ".yml", ".yaml", ".html", ".toml", ".sh", ".service", ".md", ".json", ".txt", ".conf"),
    *("", ".j2", ".ipynb"),
}


@cache
def named_pages() -> dict[str, str]:
    """Return each page that is named, with its anchor, and a file that names it."""
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found: dict[str, str] = {}
    for file in files:
        if file.startswith(ELSEWHERE) or Path(file).suffix not in TEXTS:
            continue
        try:
            text = (ROOT / file).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        for name in NAMED.findall(text):
            found.setdefault(name, file)
    return found


def exists(name: str) -> bool:
    page, _, anchor = name.partition("#")
    return (ROOT / page).is_file() and (not anchor or anchor in anchors(ROOT / page))


def test_every_page_that_is_named_exists_with_its_anchor() -> None:
    wrong = [f"{file} names {name}" for name, file in named_pages().items() if not exists(name)]
    assert not wrong, "\n".join(wrong)


def test_a_page_or_an_anchor_that_does_not_exist_is_noticed() -> None:
    assert exists("docs/runbooks.md")
    assert not exists("docs/no-runbooks.md")
    assert not exists("docs/runbooks.md#no-alert")


def test_alerts_name_pages() -> None:
    assert any(file.startswith("deploy/prometheus") for file in named_pages().values())
