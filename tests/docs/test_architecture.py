"""Every directory, file and symbol that the page of the architecture names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
HOW_TO = (ROOT / "docs" / "how-to" / "add-a-filter.md").read_text(encoding="utf-8")
LINES = [*TEXT.splitlines(), *HOW_TO.splitlines()]
INDEX = dict(
    re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", TEXT.split("## Index", 1)[1], re.MULTILINE)[1:]
)
LONGEST = 1_500  # words
SEARCHED = (
    *("fork", "CSRF", "refill", "dedup", "schema", "backoff", "receipt", "period reset"),
    *("rate limit", "filter's rule", "replay", "checkpoint", "exit code", "webhook", "hash chain"),
)
TOKEN = re.compile(r"`(?P<named>[^`]+)`(?: `(?P<name>[A-Za-z_]\w*(?:\.\w+)?)`)?")
FILE = re.compile(r"[a-z_0-9]+(?:/[a-z_0-9]+)*\.py")
DIRECTORY = re.compile(r"(?:[a-z_]+/)+")


@cache
def defined_in(path: Path) -> frozenset[str]:
    """Return the functions, classes, methods and fields that a file defines."""
    names = set[str]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(f"{node.name}.{part.name}")
                elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    names.add(part.target.id)
    return frozenset(names)


def wrong_in(line: str) -> list[str]:
    """Return what a line names and does not exist.

    Paths are from the root, or from the directory before it. A symbol right after a file is
    defined in that file.
    """
    directory, wrong = ROOT, []
    for token in TOKEN.finditer(line):
        named, name = token["named"], token["name"]
        if "NAME" in named:
            continue
        if DIRECTORY.fullmatch(named):
            paths = (ROOT / named, directory.parent / named, directory / named)
            found = [path for path in paths if any(path.glob("*.py"))]
            directory = found[0] if found else directory
        elif FILE.fullmatch(named):
            file = ROOT / named if "/" in named else directory / named
            found = [file] if file.is_file() else []
            if found and name and name not in defined_in(file):
                wrong.append(f"{name} in {named}")
        else:
            continue
        if not found:
            wrong.append(named)
    return wrong


@pytest.mark.parametrize("number", range(1, len(LINES) + 1))
def test_every_path_and_symbol_in_a_line_of_the_page_exists(number: int) -> None:
    assert not wrong_in(LINES[number - 1])


def test_a_name_that_is_gone_is_noticed() -> None:
    assert wrong_in("`accountant/partition/decide.py` `decided`")
    assert wrong_in("`accountant/partition/decides.py` `decide`")
    assert wrong_in("| `streams/kafkas/` | topics |")
    assert not wrong_in("`accountant/partition/decide.py` `decide`")


def test_every_directory_has_its_line() -> None:
    for package in ("accountant", "streams"):
        for init in (ROOT / package).rglob("__init__.py"):
            name = init.parent.relative_to(ROOT).as_posix()
            parent = init.parent.parent.relative_to(ROOT).as_posix()
            assert f"`{name}/`" in TEXT or f"| `{parent}/` |" in TEXT, name


@pytest.mark.parametrize("word", SEARCHED)
def test_the_index_has_the_words_that_people_search_for(word: str) -> None:
    assert any(word in entry for entry in INDEX)


@pytest.mark.parametrize("entry", INDEX)
def test_every_entry_of_the_index_names_a_file(entry: str) -> None:
    assert re.search(r"`[a-z_/0-9]+\.py`", INDEX[entry])


def test_the_index_is_in_order() -> None:
    assert list(INDEX) == sorted(INDEX, key=lambda entry: entry.lower().replace(",", ""))


def test_the_page_is_short() -> None:
    assert sum(word != "|" for word in TEXT.split()) <= LONGEST
