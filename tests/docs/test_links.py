"""Links within the documentation lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that the headings of a page get."""
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def wrong_links(path: Path) -> Iterator[str]:
    """Yield the links of a page to files and headings that do not exist."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        if not linked.exists():
            yield f"{target} leads nowhere"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked):
            yield f"{target}: no heading #{anchor}"


def wrong_in_pages(problems: Callable[[Path], Iterable[str]]) -> str:
    """Return what is wrong in the pages, a line each."""
    return "\n".join(
        f"{path.relative_to(ROOT)}: {problem}" for path in pages() for problem in problems(path)
    )


def test_local_links_resolve():
    wrong = wrong_in_pages(wrong_links)
    assert not wrong, wrong


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#two) [b](other.md) [c](#one) [d](page.md#one) [e](https://x.y)")
    assert list(wrong_links(page)) == ["#two: no heading #two", "other.md leads nowhere"]


def test_every_record_of_a_decision_is_in_the_index_in_order():
    linked = re.findall(
        r"\]\((\d[^)]+)\)", (ROOT / "docs" / "decisions" / "README.md").read_text("utf-8")
    )
    assert linked == sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
