"""The documentation builds as a site: every link and anchor exists, and it can be searched."""

from __future__ import annotations

import html
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            # --quiet would hide the warnings that --strict counts.
            *(sys.executable, "-m", "mkdocs", "build", "--strict"),
            *("--config-file", str(config), "--site-dir", str(site)),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = build(directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.mark.slow
def test_every_page_is_built_and_can_be_searched(site: Path) -> None:
    pages = {p.relative_to(DOCS).with_suffix(".html").as_posix() for p in DOCS.rglob("*.md")}
    pages = {re.sub(r"(^|/)README.html$", r"\1index.html", page) for page in pages}
    built = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
    assert pages == built - {"404.html"}
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    assert pages == {entry["location"].split("#")[0] or "index.html" for entry in index["docs"]}


# What people type into the search, and the page that they look for.
SEARCHED = {
    "faq": "explanation/faq.html",
    "questions people ask": "explanation/faq.html",
    "raise the budget": "explanation/faq.html",
    "get budget back": "explanation/faq.html",
    "license": "explanation/faq.html",
    "quickstart": "explanation/faq.html",
    "what is rho": "explanation/faq.html",
    "troubleshooting": "reference/troubleshooting.html",
    "command not found": "reference/troubleshooting.html",
    "no such ledger": "reference/troubleshooting.html",
    "error message": "reference/troubleshooting.html",
    "comparison": "explanation/alternatives.html",
    "alternatives": "explanation/alternatives.html",
    "opendp tumult": "explanation/alternatives.html",
    "choose epsilon": "how-to/choose-epsilon.html",
    "which epsilon": "how-to/choose-epsilon.html",
    "choose delta": "how-to/choose-epsilon.html",
    "production": "how-to/to-production.html",
    "production team": "how-to/to-production.html",
    "sizing": "explanation/sizing.html",
    "how large": "explanation/sizing.html",
    "spent before": "how-to/spent-before.html",
    "earlier releases": "how-to/spent-before.html",
    "contributing": "how-to/contribute.html",
    "report bug": "how-to/contribute.html",
    "security problem": "how-to/contribute.html",
    "reservation": "reference/reservations.html",
}
WEIGHTS = {"title": 1000, "text": 1}
# Those of the searches that lunr leaves out.
STOP_WORDS = {"get", "how", "is", "no", "not", "the", "what", "which"}
SHOWN = 5  # pages that a reader sees without scrolling


class Field(NamedTuple):
    """The title or the text of a section: its words with a space before each, and their number."""

    words: str
    length: int
    weight: float


def fields_of(entry: dict[str, Any]) -> list[Field]:
    """Return what the search reads of a section: words end at a space or a hyphen."""
    found = []
    for name, weight in WEIGHTS.items():
        plain = html.unescape(re.sub(r"<[^>]+>", "", entry[name])).lower()
        words = re.split(r"[\s\-]+", plain.strip())
        found.append(Field(" " + " ".join(words), len(words), weight * entry.get("boost", 1)))
    return found


def found_by(words: str, sections: list[tuple[str, list[Field]]]) -> list[str]:
    """Return the pages with any of these words, ordered as the site's search orders them.

    BM25 with lunr's constants; a word in a title counts a thousand times. Words are not stemmed,
    and their last letters may be left out.
    """
    scores = [0.0] * len(sections)
    means = [sum(each[i].length for _, each in sections) / len(sections) for i in (0, 1)]
    for word in set(words.split()) - STOP_WORDS:
        counts = [[field.words.count(f" {word}") for field in each] for _, each in sections]
        having = sum(map(any, counts))
        rare = math.log(1 + (len(sections) - having + 0.5) / (having + 0.5))
        for i, (_, each) in enumerate(sections):
            for field, mean, count in zip(each, means, counts[i], strict=True):
                norm = 1.2 * (0.25 + 0.75 * field.length / mean)
                scores[i] += rare * field.weight * 2.2 * count / (norm + count)
    best: dict[str, float] = {}
    for (page, _), score in zip(sections, scores, strict=True):
        if score > 0:
            best[page] = max(best.get(page, 0), score)
    return sorted(best, key=lambda page: -best[page])


@pytest.mark.slow
def test_the_search_finds_the_pages_that_people_look_for(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    sections = [(e["location"].split("#")[0] or "index.html", fields_of(e)) for e in index]
    found = {words: found_by(words, sections)[:SHOWN] for words in SEARCHED}
    wrong = [f"{words}: {each}" for words, each in found.items() if SEARCHED[words] not in each]
    assert not wrong, "\n".join(wrong)
    assert not found_by("nopagehasthisword", sections)


def test_the_first_screens_say_what_it_is_and_which_readers_it_serves() -> None:
    readme, front = ((path / "README.md").read_text("utf-8") for path in (ROOT, DOCS))
    screens = [text.split("\n## ")[0] for text in (readme, front)]
    title, sentence, more = screens[0].split("\n\n")[:3]
    for screen in screens:
        assert screen.startswith(f"{title}\n\n{sentence}\n\n{more}\n")
        assert len(screen.split()) < 300
        for reader in ("owner", "analyst", "engineer", "auditor"):
            assert reader in screen
        assert "**It is not" in screen
    described = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert f"site_description: {sentence.strip('*.')}\n" in described
    assert "](pictures/" in screens[1]
    assert "](docs/pictures/" in readme.split("\n## From Python")[0]


@pytest.mark.slow
def test_a_page_carries_the_navigation_of_its_part_alone(site: Path) -> None:
    for page in [*site.glob("how-to/*.html"), *site.glob("tutorials/*.html"), site / "index.html"]:
        found = page.read_text("utf-8")
        _, _, rest = found.partition("<nav")
        navigation = "".join(re.findall(r"<nav .*?</nav>", rest, re.DOTALL))
        assert not re.search(r"decisions/\d", navigation), page.name
        assert len(navigation) < 40_000, page.name
    listed = re.findall(
        r'href="(\d[^"#]+)"', (site / "decisions" / "index.html").read_text("utf-8")
    )
    assert {f"{path.stem}.html" for path in (DOCS / "decisions").glob("0*.md")} == set(listed)


@pytest.mark.slow
def test_a_link_to_a_file_outside_of_the_pages_leads_to_a_copy_of_it(site: Path) -> None:
    copies = 0
    for page in site.rglob("*.html"):
        for target in re.findall(r'href="([^"]*\bsource/[^"]+)\.txt"', page.read_text("utf-8")):
            copy = (page.parent / f"{target}.txt").resolve()
            of = ROOT / copy.relative_to(site / "source").as_posix().removesuffix(".txt")
            assert copy.read_bytes() == of.read_bytes()
            copies += 1
    outside = 0
    for source in DOCS.rglob("*.md"):
        text = re.sub(r"```.*?```", "", source.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((\.\./[^)#\s]+)", text):
            outside += not (source.parent / target).resolve().is_relative_to(DOCS)
    assert copies == outside > 100


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        for loaded in re.findall(r"<(?:script|img)[^>]* src=\"([^\"]+)\"", text):
            assert not re.match(r"(?:https?:)?//", loaded), f"{page.name}: {loaded}"
        for loaded in re.findall(r"<link rel=\"?stylesheet\"? href=\"([^\"]+)\"", text):
            assert not re.match(r"(?:https?:)?//", loaded), f"{page.name}: {loaded}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "link", ["[x](missing.md)", "[x](other.md#missing)", "[x](../missing.py)", "[x](#missing)"]
)
def test_a_broken_link_fails_the_build(link: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text(f"# Start\n\n{link}, [other](other.md)\n")
    (docs / "other.md").write_text("# Other\n")
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    text = text.replace("docs_dir: docs", f"docs_dir: {docs}")
    config = tmp_path / "mkdocs.yml"
    hooks = (ROOT / "scripts" / "site_hooks.py").read_text("utf-8")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "site_hooks.py").write_text(hooks)
    config.write_text(text)
    assert build(tmp_path / "site", config).returncode != 0
    (docs / "README.md").write_text("# Start\n\n[other](other.md)\n")
    done = build(tmp_path / "site", config)
    assert done.returncode == 0, done.stdout + done.stderr
