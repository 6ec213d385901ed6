"""Imports point one way, and the pure package stays pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the bottom up: a module may import what stands in its own line or above it.
LAYERS = (
    {"checksum", "errors", "outcomes", "clock", "partitioning"},
    {"amounts"},
    {"claim_fields"},
    {"claims"},
    {"conversions", "claim_text"},
    {"promises"},
    {"totals"},
    {"filters", "odometers"},
    {"policy"},
    {"plan", "largest"},
    {"ledger"},
    {"adjudication", "records", "settlement"},
    {"administer", "inputs", "ids", "snapshots"},
    {"encoded", "grants"},
    {"partition"},
    {"decide", "applying", "seen", "log_sums", "usage"},
    {"refold"},
    {"audit", "views"},
    {"crossings", "following"},
    # Never used to decide: nothing above may import it.
    {"comparators"},
    {"games"},
    {"mechanisms"},
    {"advice"},
)
# What would let in the world: it comes as an argument instead.
IMPURE = {
    "aiokafka",
    "apsw",
    "asyncio",
    "http",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
}
MOST_LINES = 350


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            yield module
            if module == "accountant":
                yield from (f"accountant.{alias.name}" for alias in node.names)


def layer_of(name: str) -> int:
    for i, names in enumerate(LAYERS):
        if name in names:
            return i
    pytest.fail(f"accountant.{name} has no place in LAYERS: give it one")


@pytest.mark.parametrize(
    "path", modules("accountant"), ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_the_core_is_pure_and_layered(path: Path) -> None:
    parts = path.relative_to(ROOT / "accountant").with_suffix("").parts
    for name in imported(path):
        top, _, rest = name.partition(".")
        assert top != "streams", f"{path} imports {name}: streams imports accountant, never back"
        assert top not in IMPURE, f"{path} imports {name}: the core reads nothing of the world"
        if top == "accountant" and rest and parts != ("__init__",):
            below = rest.split(".")[0]
            assert layer_of(below) <= layer_of(parts[0]), f"{path} imports {name}, a higher layer"


def test_no_clock_is_read_in_the_core() -> None:
    for path in modules("accountant"):
        text = path.read_text()
        for call in (".now(", ".today(", ".utcnow("):
            assert call not in text, f"{path} reads a clock: {call}"


@pytest.mark.parametrize("package", ["accountant", "streams"])
def test_a_file_holds_one_concept(package: str) -> None:
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in modules(package)
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long, f"split these: {long}"
