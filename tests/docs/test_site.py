"""The documentation builds as a site: every link and anchor exists, and it can be searched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

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
    "getting started team": "how-to/to-production.html",
    "sizing": "explanation/sizing.html",
    "how large": "explanation/sizing.html",
    "spent before": "how-to/spent-before.html",
    "earlier releases": "how-to/spent-before.html",
    "contributing": "how-to/contribute.html",
    "report bug": "how-to/contribute.html",
    "security problem": "how-to/contribute.html",
    "reservation": "reference/reservations.html",
}
SHOWN = 5  # pages that a reader sees without scrolling


def found_by(words: str, index: list[dict[str, str]]) -> list[str]:
    """Return the pages whose sections have all these words, as the site's search orders them.

    A word in a title counts most, then how much of a section it makes up.
    """
    scores: dict[str, float] = {}
    for entry in index:
        title = re.findall(r"\w+", entry["title"].lower())
        text = re.findall(r"\w+", entry["text"].lower())
        wanted = words.split()
        if all(word in title or word in text for word in wanted):
            score = sum(
                10 * (word in title) / len(title) + text.count(word) / (50 + len(text))
                for word in wanted
            )
            page = entry["location"].split("#")[0] or "index.html"
            scores[page] = max(scores.get(page, 0), score)
    return sorted(scores, key=lambda page: -scores[page])


@pytest.mark.slow
def test_the_search_finds_the_pages_that_people_look_for(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    found = {words: found_by(words, index)[:SHOWN] for words in SEARCHED}
    wrong = [
        f"{words}: {found[words]}" for words, page in SEARCHED.items() if page not in found[words]
    ]
    assert not wrong, "\n".join(wrong)
    assert not found_by("no page hasthisword", index)


def test_the_first_screens_say_what_it_is_and_which_readers_it_serves() -> None:
    readme, front = ((path / "README.md").read_text("utf-8") for path in (ROOT, DOCS))
    screens = [text.split("\n## ")[0] for text in (readme, front)]
    title, sentence = (part.strip() for part in screens[0].split("\n\n")[:2])
    for screen in screens:
        assert screen.startswith(f"{title}\n\n{sentence}\n")
        assert len(screen.split()) < 300
        for reader in ("owner", "analyst", "engineer", "auditor"):
            assert reader in screen
        assert re.search(r"\bis not\b", screen)
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
