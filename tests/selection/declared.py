"""What a file says of itself: which files of the repository it opens, and which programs it starts.

    OPENS = ("docs/**/*.md",)     # patterns from the root; `**` is any number of directories
    STARTS = ("streams.cli",)     # modules that a process of it runs

Imports show neither. A file that does one of both and does not declare it is incomplete: tests that
use it always run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.selection.sources import Source, Sources

_LIBRARIES: Final = {"multiprocessing", "pty", "runpy", "subprocess"}
_CALLS: Final = re.compile(
    r"create_subprocess_\w+|exec[lv]p?e?|executable|fork(pty)?|import_module|popen|posix_spawnp?"
    r"|ProcessPoolExecutor|spawn[lv]p?e?|spec_from_file_location|system|__import__"
)
_OF_MODULES: Final = {"asyncio", "futures", "importlib", "os", "pty", "sys", "util"}
_FOLDERS: Final = ("accountant", "benchmarks", "deploy", "docs", "examples", "research", "scripts")
_INSIDE: Final = re.compile(rf"(?:{'|'.join((*_FOLDERS, 'streams', 'tests'))})/[\w./-]+")


@dataclass(frozen=True)
class Declared:
    """What a file declares; `None` if it does not.

    Attributes:
        reads: patterns of files that it opens.
        starts: modules that it runs in other processes, or imports by a computed name.
    """

    reads: tuple[str, ...] | None = None
    starts: tuple[str, ...] | None = None


# Programs and libraries outside of `tests`, which should not have to know that they are tested.
OUTSIDE: Final = {
    "benchmarks/__main__.py": Declared(("benchmarks/results/**",), ()),
    "benchmarks/http_server.py": Declared((), ("streams.cli",)),
    "benchmarks/peers/environment.py": Declared(("benchmarks/peers/**",), ()),
    "benchmarks/processes.py": Declared((), ("streams.cli",)),
    "deploy/compose/first_start.py": Declared((), ("streams.cli",)),
    "deploy/grafana/dashboards/__main__.py": Declared(("deploy/grafana/json/*",), ()),
    "deploy/grafana/dashboards/levels.py": Declared(("deploy/prometheus/thresholds.yml",), ()),
    "research/figures/accuracy_first.py": Declared(("research/figures/live_runs.json",), ()),
}


def declared(source: Source) -> Declared:
    """Read the declarations of a file.

    Raises: ValueError: one is no tuple of texts.
    """
    if not source.in_tests:
        return OUTSIDE.get(source.path, Declared())
    found: dict[str, tuple[str, ...]] = {}
    for node in source.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if name in {"OPENS", "STARTS"}:
            try:
                texts = ast.literal_eval(value)
            except ValueError:
                texts = None
            if not isinstance(texts, tuple) or not all(isinstance(each, str) for each in texts):
                raise ValueError(f"{source.path}: {name} must be a tuple of texts")
            found[name] = texts
    return Declared(found.get("OPENS"), found.get("STARTS"))


def opens_files(source: Source, places: set[str]) -> bool:
    """Return whether a file can open files of the repository.

    Args:
        places: names of paths in the repository that it imports from other modules.
    """
    compared = {
        id(each)
        for node in source.nodes
        if isinstance(node, ast.Compare)
        for each in (node.left, *node.comparators)
    }
    for node in source.nodes:
        match node:
            case ast.Name(id="__file__") | ast.Attribute(attr="__file__"):
                if id(node) not in compared:
                    return True
            case ast.Name(id=name) if name in places:
                return True
            case ast.Attribute(attr="cwd" | "getcwd" | "getsource" | "getsourcefile"):
                return True
            case ast.Call(func=ast.Name(id="Path" | "open"), args=[ast.Constant(value=str(text))]):
                if _INSIDE.fullmatch(text):
                    return True
    return False


def starts_processes(source: Source) -> bool:
    """Return whether a file can start a process, or import a module by a computed name."""
    for node in source.nodes:
        match node:
            case ast.Import(names=names):
                if any(each.name.partition(".")[0] in _LIBRARIES for each in names):
                    return True
            case ast.ImportFrom(module=str(module), names=names):
                first, last = module.partition(".")[0], module.rpartition(".")[2]
                called = last in _OF_MODULES and any(_CALLS.fullmatch(e.name) for e in names)
                if first in _LIBRARIES or called:
                    return True
            case ast.Attribute(value=ast.Name(id=of) | ast.Attribute(attr=of), attr=attribute):
                if of in _OF_MODULES and _CALLS.fullmatch(attribute):
                    return True
            case ast.Name(id="__import__"):
                return True
    return False


def places(sources: Sources) -> dict[str, set[str]]:
    """Return the names of paths in the repository, by the module at whose top they are."""
    found: dict[str, set[str]] = {}

    def of(source: Source) -> set[str]:
        if source.module not in found:
            found[source.module] = set()
            names = imported(source)
            for node in source.tree.body:
                if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                    used = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
                    whole = _is_path(node.value)
                    if whole and used & (names | found[source.module] | {"__file__"}):
                        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                        names_of = {each.id for each in targets if isinstance(each, ast.Name)}
                        found[source.module] |= names_of
        return found[source.module]

    def imported(source: Source) -> set[str]:
        return {
            each.member
            for each in source.imports
            if each.member and each.member.isupper() and each.name in sources.named
            if each.member in of(sources.named[each.name])
        }

    return {source.path: imported(source) | of(source) for source in sources.at.values()}


def _is_path(value: ast.expr) -> bool:
    """Return whether a value is a path, or several, and not what is in a file."""
    reads = {"read_text", "read_bytes", "loads", "safe_load", "load", "open"}
    return not any(
        isinstance(each, ast.Attribute) and each.attr in reads for each in ast.walk(value)
    )


def matches(path: str, patterns: Iterator[str] | tuple[str, ...] | frozenset[str]) -> bool:
    """Return whether a path from the root is one of those that patterns mean."""
    return any(_compiled(pattern).fullmatch(path) for pattern in patterns)


_COMPILED: Final[dict[str, re.Pattern[str]]] = {}


def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern not in _COMPILED:
        text = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
        _COMPILED[pattern] = re.compile(text.replace(r"\*", "[^/]*"))
    return _COMPILED[pattern]
