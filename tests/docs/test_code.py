"""Every room, file and function that docs/code.md names is there, and every room is named."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "code.md"
LINES = PAGE.read_text(encoding="utf-8").splitlines()
MOST_LINES = 120
TOKEN = re.compile(r"`(?P<named>[^`]+)`(?: `(?P<name>[A-Za-z_]\w*(?:\.\w+)?)`)?")
FILE = re.compile(r"[a-z_0-9]+(?:/[a-z_0-9]+)*\.py")
ROOM = re.compile(r"(?:[a-z_]+/)+")


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
    """Return what a line names and what is not there.

    A room or file stands with its path from the root or, behind a room, from that room. A name
    that follows a file at once is defined there.
    """
    room, wrong = ROOT, []
    for token in TOKEN.finditer(line):
        named, name = token["named"], token["name"]
        if "NAME" in named:
            continue
        if ROOM.fullmatch(named):
            places = (ROOT / named, room.parent / named, room / named)
            found = [place for place in places if any(place.glob("*.py"))]
            room = found[0] if found else room
        elif FILE.fullmatch(named):
            file = ROOT / named if "/" in named else room / named
            found = [file] if file.is_file() else []
            if found and name and name not in defined_in(file):
                wrong.append(f"{name} in {named}")
        else:
            continue
        if not found:
            wrong.append(named)
    return wrong


@pytest.mark.parametrize("number", range(1, len(LINES) + 1))
def test_what_a_line_names_is_there(number: int) -> None:
    assert not wrong_in(LINES[number - 1])


def test_a_name_that_is_gone_is_noticed() -> None:
    assert wrong_in("`accountant/partition/decide.py` `decided`")
    assert wrong_in("`accountant/partition/decides.py` `decide`")
    assert wrong_in("| `streams/kafkas/` | topics |")
    assert not wrong_in("`accountant/partition/decide.py` `decide`")


def test_every_room_has_its_line() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for package in ("accountant", "streams"):
        for room in (ROOT / package).rglob("__init__.py"):
            name = room.parent.relative_to(ROOT).as_posix()
            assert f"`{name}/`" in text or f"`{room.parent.name}/`" in text, name


def test_the_page_is_short() -> None:
    assert len(LINES) <= MOST_LINES
