"""From a line of code to its theorem and back: docs/theory.md and the code name each other."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import get_args

from accountant.claims import ATOMS
from accountant.claims.price import FAMILIES, SUMS
from accountant.filters import FILTERS
from accountant.odometers import AnyOdometer

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
STATED_IN = (
    *(ROOT / "accountant" / name for name in ("filters", "odometers", "conversions", "mechanisms")),
    ROOT / "research" / "comparators",
)
GAMES = ROOT / "research" / "games"
# What rules are built on and states none itself.
BUILT_ON = {"__init__", "base", "additive", "summed"}
ARITHMETIC = {"outward", "roots", "renyi_arithmetic", "normal", "runs"}
WORKS = re.findall(r"^- ([^:]+):", TEXT.split("## Bibliography")[1], re.MULTILINE)
# The same with all authors spelled out: `Rogers, Roth, Ullman and Vadhan 2016`.
SPELLED = [
    f"{authors} {work[-4:]}"
    for work, authors in re.findall(r"^- ([^:]+): ([^*:]+), \*", TEXT, re.MULTILINE)
]
CITED = re.compile(
    r"\b[A-Z][a-zé]+(?:,? (?:and )?(?:van )?[A-Z][a-zé]+)*(?: et al\.)? (?:19|20)\d\d\b"
)


@cache
def modules() -> list[Path]:
    """Return the modules with mathematics of their own."""
    return [
        path
        for package in (*STATED_IN, GAMES)
        for path in sorted(package.glob("*.py"))
        if path.stem not in BUILT_ON
    ]


@cache
def citing() -> list[Path]:
    """Return the modules that may cite: the figures' labels are no sentences."""
    return [
        path
        for top in (ROOT / "accountant", ROOT / "research")
        for path in sorted(top.rglob("*.py"))
        if "figures" not in path.parts
    ]


def section(start: str) -> str:
    """Return the text from a heading to the next of its level or above."""
    level = start.split(" ", maxsplit=1)[0]
    rest = TEXT.split(f"\n{start}", 1)[1]
    return re.split(rf"\n#{{2,{len(level)}}} ", rest)[0]


@cache
def prose(path: Path) -> str:
    """Return the docstrings and comments of a module."""
    source = path.read_text(encoding="utf-8")
    found = re.findall(r"#(.*)", source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found.append(ast.get_docstring(node) or "")
    return re.sub(r"\s+", " ", " ".join(found))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_module_is_named_where_its_mathematics_is():
    missing = [named(path) for path in modules() if f"(../{named(path)})" not in TEXT]
    assert not missing, f"docs/theory.md does not name {missing}"


def test_every_module_names_its_theorem():
    stating = [p for p in modules() if p.stem not in ARITHMETIC and p.parent != GAMES]
    assert stating
    assert WORKS
    silent = [
        named(path)
        for path in stating
        if not any(source in prose(path) for source in ("docs/theory.md", *WORKS))
    ]
    assert not silent, f"without a theorem: {silent}"


def wrong_citations(text):
    """Yield what a text cites and docs/theory.md does not have."""
    for work in CITED.findall(text):
        if work not in (*WORKS, *SPELLED):
            yield f"{work} is not in the bibliography"
    for place in re.findall(r"docs/theory\.md,? (?:section )?(P?\d+)\b", text):
        other = rf"^## {place}\. |^Section {place}\."
        heading = rf"^### {place}$" if place.startswith("P") else other
        if not re.search(heading, TEXT, re.MULTILINE):
            yield f"docs/theory.md has no {place}"


def test_every_citation_in_the_code_exists_in_the_theory_page():
    wrong = [f"{named(path)}: {each}" for path in citing() for each in wrong_citations(prose(path))]
    assert not wrong, "\n".join(wrong)


def test_a_wrong_citation_is_noticed():
    assert list(wrong_citations("by Nobody 2016, docs/theory.md section 99, docs/theory.md P99"))
    assert not list(wrong_citations(f"by {WORKS[0]}, docs/theory.md section 1, docs/theory.md P1"))


def test_every_work_of_the_bibliography_is_cited():
    pages = [TEXT.split("## Bibliography")[0], *map(prose, citing())]
    uncited = [work for work in WORKS if not any(work in page for page in pages)]
    assert not uncited


def test_every_claim_has_its_row():
    for kind in ATOMS:
        assert f"\n| `{kind.__struct_config__.tag}`" in section("## 1. What a mechanism may claim")


def test_every_sum_has_its_row():
    rows = section("## 2. Every ledger is a few sums")
    for name in SUMS:
        assert re.search(rf"^\|.*`{name}`", rows, re.MULTILINE), name
    for family in FAMILIES:
        assert re.search(rf"^\|.*`{family}_", rows, re.MULTILINE), family


def test_every_filter_has_its_row_with_its_file():
    rows = section("## 3. Filters: may this mechanism run?")
    for name in FILTERS:
        (row,) = re.findall(rf"^\| `{name}`.*$", rows, re.MULTILINE)
        assert f"(../accountant/filters/{name}.py)" in row


def test_every_odometer_has_its_row_with_its_file():
    rows = section("## 4. Odometers: how much has leaked so far?")
    for kind in get_args(AnyOdometer):
        tag = kind.__struct_config__.tag
        (row,) = re.findall(rf"^\| `{tag}`.*$", rows, re.MULTILINE)
        assert f"(../accountant/odometers/{tag}.py)" in row


def test_every_proof_is_there_and_used():
    for number in range(1, 11):
        proof = section(f"### P{number}\n")
        assert len(proof) > 300, f"P{number}"
        elsewhere = TEXT.replace(proof, "")
        assert len(re.findall(rf"\bP{number}\b", elsewhere)) > 1, f"P{number}"
