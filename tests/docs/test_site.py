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
