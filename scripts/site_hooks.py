"""Hooks of the documentation site: its navigation, and links to files outside of docs/."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
# GitHub wants `\|` for a pipe in a table's code, and Python-Markdown shows the backslash.
CODE = re.compile(r"`[^`\n]*`")
# Where the source can be browsed, such as https://git.example.org/accountant/blob/main. Without
# it the site has a copy of each file outside of docs/ that a page links to.
SOURCE = os.environ.get("DOCS_SOURCE_URL", "").rstrip("/")
# How much pages count in the search. Whoever has a message looks for what to do about it; whoever
# uses the program looks for a guide before a decision.
BOOSTS = {"reference/troubleshooting.md": 3.0, "decisions/": 0.1}
# The order of the first pages of each part; the others follow by name.
PARTS = {
    "Tutorials": ("tutorials", ["first-ledger", "from-python", "in-a-notebook", "divide-a-budget"]),
    "How-to guides": ("how-to", []),
    "Reference": ("reference", ["commands", "http", "records"]),
    "Explanation": ("explanation", ["filters-and-odometers", "grants-and-retries", "trust"]),
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
            # Its records are found by search, and from this page: they are not for users.
            entries += ["decisions/README.md"] if (DOCS / "decisions").is_dir() else []
        if entries:
            nav.append({title: entries})
    config.nav = nav
    return config


def _outside(here: str, target: str) -> str | None:
    """Return the path from the root of a linked file outside of docs/, None for a page."""
    if not target or re.match(r"[a-z]+:", target):
        return None
    path = posixpath.normpath(posixpath.join("docs", here, target))
    return None if path.startswith("docs/") and (ROOT / path).is_file() else path


def _copy_of(path: str) -> str:
    # Browsers show text, and save what they do not know.
    return f"source/{path}.txt"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a copy of each file outside of docs/ that a page links to."""
    linked = set()
    for page in [] if SOURCE else files.documentation_pages():
        here = posixpath.dirname(page.src_uri)
        for link in LINK.finditer(page.content_string):
            path = _outside(here, link["target"].partition("#")[0])
            if path is not None and (ROOT / path).is_file():
                linked.add(path)
    for path in sorted(linked):
        files.append(File.generated(config, _copy_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to files outside of docs/, and refuse those to files that do not exist."""
    here = posixpath.dirname(page.file.src_uri)
    for pages, boost in BOOSTS.items():
        if page.file.src_uri.startswith(pages):
            page.meta["search"] = {"boost": boost}

    def rewritten(link: re.Match[str]) -> str:
        target, _, anchor = link["target"].partition("#")
        path = _outside(here, target)
        if path is None:
            return link[0]
        if not (ROOT / path).is_file():
            raise PluginError(f"{page.file.src_uri}: {link['target']} is no file")
        if not SOURCE:
            return f"[{link['text']}]({posixpath.relpath(_copy_of(path), here or '.')})"
        return f"[{link['text']}]({SOURCE}/{path}{'#' + anchor if anchor else ''})"

    return CODE.sub(lambda code: code[0].replace(r"\|", "|"), LINK.sub(rewritten, markdown))


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Refuse a page that no part of the navigation has."""
    shown = [f for f in files.documentation_pages() if not f.inclusion.is_not_in_nav()]
    missing = [f.src_uri for f in shown if f.page not in nav.pages]
    if missing:
        raise PluginError(f"not in the navigation: {', '.join(missing)}")
    return nav
