"""Imports point one way, files are short, and the core stays pure."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = ("accountant", "streams")
PACKAGES = (*INSTALLED, "research")
# What each package may import of the others.
MAY_IMPORT = {"accountant": (), "streams": ("accountant",), "research": ("accountant", "streams")}

# Rooms and loose modules from the bottom up: each may import its own room and what is in an
# earlier line, and nothing else.
LAYERS = {
    "accountant": (
        {"field_rules", "foreign_text", "strict_json", "suggest", "times", "values_to_write"},
        {"checksum", "look_alikes"},
        {"likeness"},
        {"errors"},
        {"versions"},
        {"fractional"},
        # Samplers only: their bits are an argument, and what decides never draws.
        {"noise"},
        {"amounts"},
        {"exact_numbers"},
        {"conversions"},
        {"claims"},
        {"filters", "odometers"},
        {"policy"},
        {"questions"},
        {"records"},
        {"dataset_ledger", "members"},
        {"limits"},
        {"ledger"},
        {"approvals", "asks", "reservations"},
        {"partition"},
        {"views"},
        {"replay"},
        # Never used to decide.
        {"advice", "mechanisms"},
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
        {"errors", "variables"},
        {"error_words"},
        {"address", "clock", "ndjson", "webhook_post"},
        {"log"},
        {"settings"},
        {"telemetry"},
        {"files", "oauth", "tasks"},
        {"service"},
        {"answers", "index", "processing"},
        {"evidence"},
        {"kafka", "metrics", "testing"},
        {"alerts"},
        {"embedded"},
        {"notebooks"},
        {"replies"},
        {"engines"},
        {"client", "http"},
        {"audit"},
        {"auth", "sources"},
        {"curator", "gateway"},
        # Tests of the API run it without the pages.
        {"pages", "server"},
        {"worker"},
        {"serve"},
        {"app"},
        {"cli"},
    ),
}
# Lines of code: docstrings, comments, imports and blank lines are not counted.
MOST_LINES = 500
# Copied alone to whoever checks evidence: what it needs cannot lie in another file.
MOST_LINES_ALONE = {"streams/evidence/verify.py": 1130}
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


class Module(NamedTuple):
    """What the rules need to know of a file. It is parsed once: syntax trees are large.

    Attributes:
        imports: each module that it imports, and each name with its module.
        lines_of_code: without docstrings, comments, imports and blank lines.
        clock_reads: each place that reads the time, with its line.
    """

    imports: tuple[str, ...]
    lines_of_code: int
    clock_reads: tuple[str, ...]


@cache
def parsed(path: Path) -> Module:
    text = path.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    return Module(
        tuple(imports_in(path, nodes)), lines_of_code(text, nodes), tuple(clock_reads(nodes))
    )


def imports_in(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
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
    return {name: {*parsed(path).imports} & every.keys() - {name} for name, path in every.items()}


def layer_of(package: str, room: str) -> int:
    for i, rooms in enumerate(LAYERS[package]):
        if room in rooms:
            return i
    pytest.fail(f"{package}.{room} has no place in LAYERS: give it one")


def backward_imports(path: Path) -> Iterator[str]:
    """Yield each import of a module that must not be."""
    package, *rooms = name_of(path).split(".")
    for name in sorted(own_imports()[name_of(path)]):
        other, *others = name.split(".")
        if other != package:
            if other not in MAY_IMPORT[package]:
                yield f"imports {name}"
        elif rooms and others and others[0] != rooms[0]:
            below, own = layer_of(package, others[0]), layer_of(package, rooms[0])
            if below >= own:
                yield f"imports {name}, which is not below it"


def wrong_in(paths: list[Path], problems: Callable[[Path], Iterable[str]]) -> str:
    """Return what is wrong in files, a line each."""
    return "\n".join(
        f"{path.relative_to(ROOT).as_posix()} {problem}"
        for path in paths
        for problem in problems(path)
    )


def test_no_import_runs_back() -> None:
    wrong = wrong_in(every_module(), backward_imports)
    assert not wrong, wrong


def rooms_that_import_each_other(imports: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Return pairs of rooms; a loose module is a room of its own."""
    between = {
        (room, other)
        for name, others in imports.items()
        for room, other in ((room_of(name), room_of(each)) for each in others)
        if room != other and "." in room and "." in other
    }
    return {(one, other) for one, other in between if one < other and (other, one) in between}


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_no_two_rooms_import_each_other() -> None:
    assert not rooms_that_import_each_other(own_imports())


def test_rooms_that_import_each_other_are_noticed() -> None:
    imports = {
        "streams.client.connection.connect": {"streams.engines.claim"},
        "streams.engines.run": {"streams.client.ask", "streams.engines.claim"},
        "streams.client": {"streams.client.connection.connect", "streams.errors"},
    }
    assert rooms_that_import_each_other(imports) == {("streams.client", "streams.engines")}


def test_a_layer_names_whole_rooms() -> None:
    for package, layers in LAYERS.items():
        for room in set().union(*layers):
            assert "." not in room, f"{package}.{room}: give the module's room one layer"


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


def io_of(path: Path) -> Iterator[str]:
    """Yield what a module does that reaches outside of it."""
    for name in parsed(path).imports:
        if name.split(".")[0] in IMPURE:
            yield f"imports {name}"
    for call in (".now(", ".today(", ".utcnow("):
        if call in path.read_text():
            yield f"reads a clock: {call}"


def test_the_core_does_no_io() -> None:
    wrong = wrong_in(pure_modules(), io_of)
    assert not wrong, wrong


# What waits, and writes a time that it is given.
NO_CLOCK = {"gmtime", "localtime", "sleep", "strftime"}


def clock_reads(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield where a module reads the time."""
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=read) if read not in NO_CLOCK:
                yield f"reads a clock in line {node.lineno}"
            case ast.Attribute(attr="now" | "today" | "utcnow", value=of):
                named = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", None)
                if named in {"date", "datetime"}:
                    yield f"reads a clock in line {node.lineno}"
            case ast.Call(func=ast.Attribute(attr="strftime", value=ast.Name(id="time"))):
                if len(node.args) != 2:
                    yield f"writes the time of now in line {node.lineno}"
            case ast.ImportFrom(module="time"):
                yield f"imports from `time` in line {node.lineno}: import the module"


def test_only_the_clock_module_reads_the_time() -> None:
    others = [path for path in modules("streams") if path != ROOT / "streams" / "clock.py"]
    wrong = wrong_in(others, lambda path: parsed(path).clock_reads)
    assert not wrong, wrong


def test_a_read_of_a_clock_is_noticed() -> None:
    for code in (
        "time.time()",
        "datetime.now(UTC)",
        "datetime.date.today()",
        "time.strftime('%H')",
        "from time import monotonic",
    ):
        assert list(clock_reads(list(ast.walk(ast.parse(code))))), code
    for code in ("time.sleep(1)", "clock.now()", "time.strftime('%H', at)", "import time"):
        assert not list(clock_reads(list(ast.walk(ast.parse(code))))), code


# Its files are opened by Python's own SQLite, and by nothing else.
RESULTS = ("client/releases/", "client/sessions/")


def test_no_second_sqlite_opens_a_ledger() -> None:
    allowed = tuple(f"{root}/{part}" for root in ("streams", "tests/streams") for part in RESULTS)
    paths = [*modules("streams"), *modules("tests")]
    # Parse only the files that have the word.
    named = [path for path in paths if "sqlite3" in path.read_text()]
    importing = [
        path.relative_to(ROOT).as_posix() for path in named if "sqlite3" in parsed(path).imports
    ]
    wrong = [name for name in importing if not name.startswith(allowed)]
    assert not wrong, f"{wrong}: use apsw, or tests.ledger_file"


def lines_of_code(text: str, nodes: list[ast.AST]) -> int:
    left_out: set[int] = set()
    for node in nodes:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if number not in left_out and line.strip() and not line.lstrip().startswith("#")
    )


def test_a_file_has_at_most_500_lines_of_code() -> None:
    def too_long(path: Path) -> Iterator[str]:
        count = parsed(path).lines_of_code
        if count > MOST_LINES_ALONE.get(str(path.relative_to(ROOT)), MOST_LINES):
            yield f"has {count} lines of code: split it where one concept ends"

    wrong = wrong_in(every_module(), too_long)
    assert not wrong, wrong
