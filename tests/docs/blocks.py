"""The pages of the documentation, and their blocks of code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

OPENS = ("README.md", "SECURITY.md", "docs/**", "deploy/**")

ROOT: Final = Path(__file__).resolve().parents[2]
_BLOCK: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[\w.]+)\")?\n"
    r"(?P<body>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str | None
    body: str
    span: tuple[int, int]


def blocks(text: str, *languages: str) -> list[Block]:
    """Return the blocks of a page in these languages, by default those of a tutorial."""
    return [
        Block(
            each["language"],
            each["title"],
            re.sub(rf"^{each['indent']}", "", each["body"], flags=re.MULTILINE),
            each.span("body"),
        )
        for each in _BLOCK.finditer(text)
        if each["language"] in (languages or ("sh", "python", "text"))
    ]


def pages() -> list[str]:
    """Return the paths of all pages."""
    found = [ROOT / "README.md", ROOT / "SECURITY.md"]
    found += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "deploy").rglob("*.md"))
    return [each.relative_to(ROOT).as_posix() for each in found]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")
