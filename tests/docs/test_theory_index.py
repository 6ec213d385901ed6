"""From a line of code to its theorem and back: docs/theory.md and the code name each other."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

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
MODULES = [
    path
    for package in (*STATED_IN, GAMES)
    for path in sorted(package.glob("*.py"))
    if path.stem not in BUILT_ON
]
# The figures' labels are no sentences.
EVERY = [
    path
    for top in (ROOT / "accountant", ROOT / "research")
    for path in sorted(top.rglob("*.py"))
    if "figures" not in path.parts
]
STATING = [p for p in MODULES if p.stem not in ARITHMETIC and p.parent != GAMES]
WORKS = re.findall(r"^- ([^:]+):", TEXT.split("## Bibliography")[1], re.MULTILINE)
# The same with all authors spelled out: `Rogers, Roth, Ullman and Vadhan 2016`.
SPELLED = [
    f"{authors} {work[-4:]}"
    for work, authors in re.findall(r"^- ([^:]+): ([^*:]+), \*", TEXT, re.MULTILINE)
]
CITED = re.compile(
    r"\b[A-Z][a-zé]+(?:,? (?:and )?(?:van )?[A-Z][a-zé]+)*(?: et al\.)? (?:19|20)\d\d\b"
)


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


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_every_module_is_named_where_its_mathematics_is(path):
    assert f"(../{named(path)})" in TEXT


@pytest.mark.parametrize("path", STATING, ids=named)
def test_every_module_names_its_theorem(path):
    text = prose(path)
    assert "docs/theory.md" in text or any(work in text for work in WORKS)


@pytest.mark.parametrize("path", EVERY, ids=named)
def test_every_citation_in_the_code_exists_in_the_theory_page(path):
    text = prose(path)
    for work in CITED.findall(text):
        assert work in (*WORKS, *SPELLED), f"{work} is not in the bibliography"
    for place in re.findall(r"docs/theory\.md,? (?:section )?(P?\d+)\b", text):
        other = rf"^## {place}\. |^Section {place}\."
        heading = rf"^### {place}$" if place.startswith("P") else other
        assert re.search(heading, TEXT, re.MULTILINE), f"docs/theory.md has no {place}"


@pytest.mark.parametrize("work", WORKS)
def test_every_work_of_the_bibliography_is_cited(work):
    pages = [TEXT.split("## Bibliography")[0]]
    pages += [prose(path) for path in EVERY]
    assert any(work in page for page in pages)


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


@pytest.mark.parametrize("number", range(1, 11))
def test_every_proof_is_there_and_used(number):
    proof = section(f"### P{number}\n")
    assert len(proof) > 300
    elsewhere = TEXT.replace(proof, "")
    assert len(re.findall(rf"\bP{number}\b", elsewhere)) > 1
