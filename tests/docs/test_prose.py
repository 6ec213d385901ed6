"""Pages, paragraphs and sentences are short.

Code, links' targets and pictures are left out. A cell of a table is a paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 1500
MOST_WORDS_OF_A_PARAGRAPH = 100
MOST_WORDS_OF_A_SENTENCE = 40
# Papers, and what the program generates.
LONG = {
    "docs/theory.md",
    "docs/residue.md",
    "docs/reference/commands.md",
    "docs/reference/http/routes.md",
    "docs/reference/reasons.md",
    "docs/reference/troubleshooting.md",
}
# Read one section at a time: each alert leads to its own.
BY_SECTION = {"docs/runbooks.md"}
MOST_WORDS_OF_A_SECTION = 200
STEPS = ("docs/tutorials/", "docs/how-to/")


def without_code(text: str) -> str:
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def words(text: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a page, its list items and the cells of its tables."""
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)", without_code(text)):
        lines = part.strip()
        if lines.startswith("|"):
            yield from (cell.replace("\\", "|") for cell in re.split(r"(?<!\\)\|", lines))
        elif not lines.startswith("#"):
            yield re.sub(r"\s+", " ", lines)


def sentences(paragraph: str) -> list[str]:
    # `e.g.` is not used; a full stop within code or a number has no space behind it.
    return re.split(r"(?<=[.!?:;])[\"*)]*\s+", paragraph)


def too_long(page: str, text: str) -> list[str]:
    if page in BY_SECTION:
        counts = {each.split("\n")[0]: words(each) for each in without_code(text).split("\n## ")}
        long = {name: count for name, count in counts.items() if count > MOST_WORDS_OF_A_SECTION}
        return [f"{name}: {count} words" for name, count in long.items()]
    count = words(without_code(text))
    return [] if page in LONG or count <= MOST_WORDS else [f"{count} words"]


def long_paragraphs(page: str, text: str) -> list[str]:
    if page in LONG:
        return []
    return [
        f"{words(each)} words: {each[:60]}"
        for each in paragraphs(text)
        if words(each) > MOST_WORDS_OF_A_PARAGRAPH
    ]


def long_sentences(page: str, text: str) -> list[str]:
    if not page.startswith(STEPS):
        return []
    return [
        f"{words(each)} words: {each[:60]}"
        for paragraph in paragraphs(text)
        for each in sentences(paragraph)
        if words(each) > MOST_WORDS_OF_A_SENTENCE
    ]


RULES: tuple[Callable[[str, str], list[str]], ...] = (
    too_long,
    long_paragraphs,
    long_sentences,
)


def breaches(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [f"{rule.__name__}: {each}" for rule in RULES for each in rule(page, text)]


def test_every_page_is_short_and_plain() -> None:
    pages = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in DOCS.rglob("*.md"))]
    wrong = [f"{page}: {breach}" for page in pages for breach in breaches(page)]
    assert not wrong, "\n".join(wrong)


def test_each_rule_finds_its_breach() -> None:
    step = "docs/how-to/x.md"
    assert too_long(step, "word " * 1501)
    assert not too_long("docs/theory.md", "word " * 1501)
    assert long_paragraphs(step, "| a | " + "word " * 101 + "|")
    assert not long_paragraphs(step, "word " * 60 + "\n\n" + "word " * 60)
    assert long_sentences(step, "word " * 41)
    assert not long_sentences(step, "word " * 30 + "end. " + "word " * 30)
    assert not long_sentences("docs/reference/x.md", "word " * 41)
