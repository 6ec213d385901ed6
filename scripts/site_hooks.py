"""Hooks of the documentation site: its navigation, and links to files outside of docs/."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
# GitHub wants `\|` for a pipe in a table's code, and Python-Markdown shows the backslash.
CODE = re.compile(r"`[^`\n]*`")
# Where the source can be browsed, such as https://git.example.org/accountant/blob/main. Without
# it a link to a file outside of docs/ becomes its text.
SOURCE = os.environ.get("DOCS_SOURCE_URL", "").rstrip("/")
# The order of the first pages of each part; the others follow by name.
PARTS = {
    "Tutorials": ("tutorials", ["first-ledger", "from-python", "in-a-notebook", "divide-a-budget"]),
    "How-to guides": ("how-to", []),
    "Reference": ("reference", ["commands", "http", "records"]),
    "Explanation": ("explanation", ["filters-and-odometers", "grants-and-retries", "trust"]),
    "Decisions": ("decisions", []),
}


def _part(directory: str, first: list[str]) -> list[Any]:
    """Return the navigation of a directory: NAME.md leads the pages of the directory NAME."""

    def order(path: Path) -> tuple[int, str]:
        return first.index(path.stem) if path.stem in first else len(first), path.name

    entries: list[Any] = []
    for path in sorted((DOCS / directory).glob("*.md"), key=order):
        page = path.relative_to(DOCS).as_posix()
        below = _part(page.removesuffix(".md"), []) if path.with_suffix("").is_dir() else []
        title = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        entries.append({title: [page, *below]} if below else page)
    return entries


def _guides() -> list[Any]:
    """Return a section of how-to guides for each row of the table in docs/README.md."""
    _, _, rest = (DOCS / "README.md").read_text(encoding="utf-8").partition("## How-to guides")
    table, _, _ = rest.partition("\n## ")
    rows = [line.strip("|").split("|") for line in table.splitlines() if "](" in line]
    return [
        {task.strip().capitalize(): re.findall(r"\]\(([^)]+)\)", guides)} for task, guides in rows
    ]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation from the directories, so that it has a new page at once."""
    nav: list[Any] = [{"Documentation": "README.md"}]
    for title, (directory, first) in PARTS.items():
        entries = _part(directory, first) if (DOCS / directory).is_dir() else []
        if title == "How-to guides":
            entries = _guides()
        if title == "Explanation":
            guides = {page for section in _guides() for page in next(iter(section.values()))}
            roots = {path.name for path in DOCS.glob("*.md")} - guides - {"README.md"}
            entries += sorted(roots, reverse=True)
        if entries:
            nav.append({title: entries})
    config.nav = nav
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to files outside of docs/, and refuse those to files that do not exist."""
    here = posixpath.dirname(page.file.src_uri)

    def outside(link: re.Match[str]) -> str:
        target, _, anchor = link["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return link[0]
        path = posixpath.normpath(posixpath.join("docs", here, target))
        is_page = path.startswith("docs/") and (ROOT / path).is_file()
        if is_page:
            return link[0]
        if not (ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: {link['target']} does not exist")
        if not SOURCE:
            return link["text"]
        return f"[{link['text']}]({SOURCE}/{path}{'#' + anchor if anchor else ''})"

    return CODE.sub(lambda code: code[0].replace(r"\|", "|"), LINK.sub(outside, markdown))


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Refuse a page that no part of the navigation has."""
    missing = [f.src_uri for f in files.documentation_pages() if f.page not in nav.pages]
    if missing:
        raise PluginError(f"not in the navigation: {', '.join(missing)}")
    return nav
