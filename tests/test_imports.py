"""Imports point one way, files are short, and the core stays pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = ("accountant", "streams")
PACKAGES = (*INSTALLED, "research")
# What each package may import of the others.
MAY_IMPORT = {"accountant": (), "streams": ("accountant",), "research": ("accountant", "streams")}

# Rooms and loose modules from the bottom up: each may import its own room and what is in an
# earlier line, and nothing else. A dotted name is one module that stands below its room.
LAYERS = {
    "accountant": (
        {"foreign_text", "suggest", "times", "values_to_write"},
        {"checksum"},
        {"errors"},
        {"versions"},
        {"fractional"},
        {"amounts"},
        {"exact_numbers"},
        {"conversions"},
        {"claims"},
        {"filters", "odometers"},
        {"ledger.settlement"},
        {"policy"},
        {"questions"},
        {"limits.wire"},
        {"records"},
        {"ledger.ledger"},
        {"limits"},
        {"ledger"},
        {"partition.permits"},
        {"reservations"},
        {"partition"},
        {"views"},
        {"replay"},
        # Never used to decide.
        {"advice", "mechanisms", "noise"},
        {"answers"},
        {"display"},
    ),
    "research": (
        {"comparators", "games"},
        {"experiment"},
        {"stopping_laws"},
        {"accuracy_first"},
        {"figures", "live_experiment"},
    ),
    "streams": (
        {"errors", "immutable_sqlite"},
        {"address", "broadcast", "clock", "service", "trace_context"},
        {"visibility"},
        {"reservation_reads"},
        {"dataset_reads"},
        {"settings"},
        {"logs", "tracing"},
        {"background", "lock_holder", "ndjson", "oauth", "private_files", "webhook_post"},
        {"answers", "index", "processing"},
        {"evidence"},
        {"kafka", "metrics", "testing"},
        {"alerts"},
        {"embedded"},
        # What a client claims from the objects of an engine.
        {"engines.scoped_claim"},
        {"engines.mechanism", "engines.rounding"},
        {"engines.opacus_guard"},
        {"engines.opacus", "engines.opendp"},
        {"engines.measurable"},
        {"client", "http"},
        {"auth", "engines", "sources"},
        {"curator", "gateway"},
        {"pages"},
        {"server"},
        {"worker"},
        {"app"},
        {"cli"},
    ),
}
# Lines of code: docstrings, comments, imports and blank lines are not counted.
MOST_LINES = 500
# Sources of I/O: the core gets their values as arguments.
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


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def every_module() -> list[Path]:
    return [path for package in PACKAGES for path in modules(package)]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def own_imports() -> dict[str, set[str]]:
    """Return which modules of both packages each of them imports."""
    every = {name_of(path): path for path in every_module()}
    return {name: {*imported(path)} & every.keys() - {name} for name, path in every.items()}


def room_of(package: str, names: list[str]) -> str:
    """Return the layer of a module: its own in LAYERS, otherwise its directory."""
    dotted = ".".join(names[:2])
    return dotted if any(dotted in rooms for rooms in LAYERS[package]) else names[0]


def layer_of(package: str, room: str) -> int:
    for i, rooms in enumerate(LAYERS[package]):
        if room in rooms:
            return i
    pytest.fail(f"{package}.{room} has no place in LAYERS: give it one")


@pytest.mark.parametrize("path", every_module(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_import_runs_back(path: Path) -> None:
    package, *rooms = name_of(path).split(".")
    for name in own_imports()[name_of(path)]:
        other, *others = name.split(".")
        if other != package:
            assert other in MAY_IMPORT[package], f"{path} imports {name}"
        elif rooms and others and room_of(package, others) != room_of(package, rooms):
            below, own = (layer_of(package, room_of(package, each)) for each in (others, rooms))
            assert below < own, f"{path} imports {name}, which is not below it"


def test_no_module_imports_itself_indirectly() -> None:
    # A package's own __init__ only re-exports, so every module in it may import it.
    graph = {
        name: {other for other in others if not name.startswith(f"{other}.")}
        for name, others in own_imports().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_ledger_in_a_file_imports_nothing_of_kafka_even_indirectly() -> None:
    waiting = [name for name in own_imports() if name.startswith("streams.embedded")]
    found = set(waiting)
    for name in waiting:
        more = own_imports()[name] - found
        found |= more
        waiting += more
        assert not {each for each in more if each.startswith("streams.kafka")}, f"by {name}"


def test_a_curator_is_a_client_of_any_ledger() -> None:
    for name, imports in own_imports().items():
        if name.startswith("streams.curator"):
            kinds = {
                each for each in imports if each.startswith(("streams.embedded", "streams.kafka"))
            }
            assert not kinds, f"{name} imports {kinds}"


def pure_modules() -> list[Path]:
    # What draws figures, and what runs a ledger, writes files.
    research = ROOT / "research"
    writing = (research / "figures", research / "live_experiment.py")
    pure = [p for p in modules("research") if not {p, *p.parents} & {*writing}]
    return modules("accountant") + pure


@pytest.mark.parametrize("path", pure_modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_core_does_no_io(path: Path) -> None:
    for name in imported(path):
        assert name.split(".")[0] not in IMPURE, f"{path} imports {name}"
    for call in (".now(", ".today(", ".utcnow("):
        assert call not in path.read_text(), f"{path} reads a clock: {call}"


# What waits, and writes a time that it is given.
NO_CLOCK = {"gmtime", "localtime", "sleep", "strftime"}


@pytest.mark.parametrize("path", modules("streams"), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_only_the_clock_module_reads_the_time(path: Path) -> None:
    if path == ROOT / "streams" / "clock.py":
        return
    assert not any(name.startswith("time.") for name in imported(path)), "import the module `time`"
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=read):
                assert read in NO_CLOCK, f"{path}:{node.lineno} reads a clock"
            case ast.Attribute(attr="now" | "today" | "utcnow", value=of):
                named = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", None)
                assert named not in {"date", "datetime"}, f"{path}:{node.lineno} reads a clock"
            case ast.Call(func=ast.Attribute(attr="strftime", value=ast.Name(id="time"))):
                assert len(node.args) == 2, f"{path}:{node.lineno} writes the time of now"


# Its files are opened by Python's own SQLite, and by nothing else.
RESULTS = ("client/results/", "client/test_named_releases.py", "client/test_sessions.py")


def test_no_second_sqlite_opens_a_ledger() -> None:
    allowed = tuple(f"{root}/{part}" for root in ("streams", "tests/streams") for part in RESULTS)
    for path in [*modules("streams"), *modules("tests")]:
        if "sqlite3" in imported(path):
            name = path.relative_to(ROOT).as_posix()
            assert name.startswith(allowed), f"{name}: use apsw, or tests.ledger_file"


def lines_of_code(path: Path) -> int:
    text = path.read_text()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if number not in left_out and line.strip() and not line.lstrip().startswith("#")
    )


@pytest.mark.parametrize("path", every_module(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_file_has_at_most_500_lines_of_code(path: Path) -> None:
    assert lines_of_code(path) <= MOST_LINES, "split it where one concept ends"
