"""Every page of the documentation that code, alerts, manifests and errors name exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_links import anchors

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"docs/(?:[\w-]+/)*[\w-]+\.md(?:#[\w-]+)?")
# What these say of pages is about another tree, or made of parts.
ELSEWHERE = ("tests/docs/", "tests/mutants/", "tests/adding/")
TEXTS = {
    *(".py", ".yml", ".yaml", ".html", ".toml", ".sh", ".service", ".md", ".json", ".txt", ".conf"),
    *("", ".j2", ".ipynb"),
}


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


PAGES = named_pages()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_that_is_named_exists_with_its_anchor(name: str) -> None:
    page, _, anchor = name.partition("#")
    assert (ROOT / page).is_file(), f"{PAGES[name]} names {page}"
    if anchor:
        assert anchor in anchors((ROOT / page).read_text(encoding="utf-8")), PAGES[name]


def test_alerts_name_pages() -> None:
    assert any(file.startswith("deploy/prometheus") for file in PAGES.values())
