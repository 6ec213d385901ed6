"""Every directory, file and symbol that the pages about the code name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.every_case import every_case

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ("explanation/architecture.md", "explanation/code-index.md", "how-to/add-a-filter.md")
TEXT, INDEX_TEXT, HOW_TO = ((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", INDEX_TEXT, re.MULTILINE)[1:]
INDEX = dict(ROWS)
LONGEST = 1_500  # words
SEARCHED = (
    *("fork", "CSRF", "refill", "dedup", "schema", "backoff", "receipt", "period reset"),
    *("rate limit", "filter's rule", "replay", "checkpoint", "exit code", "webhook", "hash chain"),
    *("expired id", "clock ahead", "duplicate JSON key", "exponent", "float", "ETag", "CSP"),
    *("session lifetime", "token hash", "key rotation", "Retry-After", "heartbeat", "fsync"),
    *("group commit", "transaction timeout", "consumer group", "partition count", "replication"),
    *("alert deduplication", "Grafana", "alert rule", "metric name", "CLI option", "rounding"),
    *("environment variable", "mismatch", "delta for claims", "percentage", "dates", "JSON schema"),
    *("OpenAPI example", "Renyi order", "Brownian", "interactive", "ex-post", "joint guarantee"),
)
TOKEN = re.compile(r"`(?P<named>[^`]+)`(?: `(?P<name>[A-Za-z_]\w*(?:\.\w+)?)`)?")
FILE = re.compile(r"[a-z_0-9]+(?:/[a-z_0-9]+)*\.(?:py|yml)")
DIRECTORY = re.compile(r"(?:[a-z_]+/)+")
SYMBOL = re.compile(r"[A-Za-z_]\w*(?:\.\w+)?")


@cache
def defined_in(path: Path) -> frozenset[str]:
    """Return the functions, classes, methods, fields and constants that a file defines.

    A method, private or not, is named with its class.
    """
    names = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        names.update(target.id for target in targets_of(node))
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(f"{node.name}.{part.name}")
                elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    names.add(part.target.id)
    return frozenset(names)


def targets_of(node: ast.stmt) -> list[ast.Name]:
    """Return the names that a statement assigns."""
    if isinstance(node, ast.Assign):
        return [target for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target]
    return []


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
            found = [path for path in paths if any(path.glob("*.py")) or any(path.glob("*.html"))]
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


def wrong_in_row(cell: str) -> list[str]:
    """Return the symbols of a row that the file before them does not define."""
    file, wrong = Path(), []
    for named in re.findall(r"`([^`]+)`", cell):
        if FILE.fullmatch(named):
            file = ROOT / named
        elif SYMBOL.fullmatch(named) and named not in defined_in(file):
            wrong.append(f"{named} in {file.relative_to(ROOT)}")
    return wrong


def test_every_path_and_symbol_in_the_pages_exists() -> None:
    wrong = [
        f"{page}, line {number}: {each}"
        for page, text in zip(PAGES, (TEXT, INDEX_TEXT, HOW_TO), strict=True)
        for number, line in enumerate(text.splitlines(), 1)
        for each in wrong_in(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_name_that_is_gone_is_noticed() -> None:
    assert wrong_in("`accountant/partition/decide.py` `decided`")
    assert wrong_in("`accountant/partition/decides.py` `decide`")
    assert wrong_in("| `streams/kafkas/` | topics |")
    assert not wrong_in("`accountant/partition/decide.py` `decide`")


def test_a_method_that_is_gone_is_noticed_in_a_row() -> None:
    row = "`streams/client/releases/store.py` `ResultStore`, `ResultStore._finish_run`"
    assert not wrong_in_row(row)
    assert wrong_in_row(f"{row}, `ResultStore._finish_it`")
    assert wrong_in_row(f"{row}, `_finish_run`")


def test_every_directory_is_named() -> None:
    for package in ("accountant", "streams"):
        for init in (ROOT / package).rglob("__init__.py"):
            name = init.parent.relative_to(ROOT).as_posix()
            assert f"`{name}/`" in TEXT, name


def test_the_index_has_the_words_that_people_search_for() -> None:
    missing = [word for word in SEARCHED if not any(word in entry for entry in INDEX)]
    assert not missing


def test_every_entry_of_the_index_names_a_file_and_its_symbols() -> None:
    assert INDEX
    without = [
        f"{entry}: names no symbol of a file"
        for entry, cell in INDEX.items()
        if not re.search(r"`[a-z_/0-9]+\.py` `[A-Za-z_]", cell)
    ]
    wrong = [f"{entry}: {each}" for entry, cell in INDEX.items() for each in wrong_in_row(cell)]
    assert not without + wrong, "\n".join(without + wrong)


def test_every_entry_of_the_index_is_there_once() -> None:
    assert len(INDEX) == len(ROWS)


def test_the_index_is_in_order() -> None:
    assert list(INDEX) == sorted(INDEX, key=lambda entry: entry.lower().replace(",", ""))


@every_case("text", [TEXT, INDEX_TEXT])
def test_the_page_is_short(text: str) -> None:
    assert sum(word != "|" for word in text.split()) <= LONGEST
