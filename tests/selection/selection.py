"""Which tests a change selects."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.selection.declared import matches
from tests.selection.reach import Graph
from tests.selection.sources import Sources

STARTS = ()

# What every test depends on, or the way in which tests run.
FOR_ALL: Final = (
    ".ci/**",
    "Makefile",
    "pyproject.toml",
    "requirements/**",
    "scripts/setup.sh",
    "tests/__init__.py",
    "tests/conftest.py",
)
# Their conftest leaves them out unless their own target asks for them.
OPT_IN: Final = ("browser", "observability", "provider", "sources")


@dataclass(frozen=True)
class Selection:
    """The test files to run after a change.

    Attributes:
        changed: the files that changed.
        of: how many test files there are.
        directly: those that import a changed module themselves, or changed: they run with the
            repetitions of `make nightly`.
        others: those that a change reaches otherwise.
        always: those of `others` that run because a file does not declare what it does.
        everything: why all tests run, if they do.
    """

    changed: frozenset[str]
    of: int
    directly: frozenset[str]
    others: frozenset[str]
    always: frozenset[str]
    everything: str | None = None

    @property
    def files(self) -> frozenset[str]:
        return self.directly | self.others


def changed_since(root: Path, commit: str) -> frozenset[str]:
    """Return the files that differ from a commit, also those that are not committed.

    Raises: subprocess.CalledProcessError: there is no such commit.
    """
    commands = (
        ("diff", "--name-only", "--no-renames", "-z", commit, "--"),
        ("ls-files", "--others", "--exclude-standard", "-z"),
    )
    found = set[str]()
    for command in commands:
        done = subprocess.run(
            ["git", *command], cwd=root, check=True, stdout=subprocess.PIPE, text=True
        )
        found |= {*filter(None, done.stdout.split("\0"))}
    return frozenset(found)


def graph_of(root: Path, changed: Iterable[str] = ()) -> Graph:
    """Read a tree in which files changed, of which some may be gone."""
    gone = frozenset(each for each in changed if not (root / each).is_file())
    return Graph(Sources.under(root, deleted=gone))


def select(graph: Graph, changed: frozenset[str]) -> Selection:
    """Return the tests that a change of some files may make fail."""
    reaches = graph.reaches
    modules = {path: modules_of(graph.sources, path) for path in changed}
    directly, others, everything = set[str](), set[str](), _everything(changed)
    used = set[str]()
    for test, reach in reaches.items():
        by = {path for path in changed if reach.has(path) or modules[path] & reach.modules}
        used |= by
        of_by = set[str]().union(*(modules[path] for path in by))
        beside = {f"tests/{_directory(path)}" for path in by if not path.startswith("tests/")}
        if test in changed or of_by & reach.directly or (of_by and _directory(test) in beside):
            directly.add(test)
        elif by or everything:
            others.add(test)
    always = {test for test, reach in reaches.items() if reach.undeclared} - directly
    if unknown := sorted(path for path in changed - used if not path.endswith(".py")):
        everything = everything or f"no test declares that it opens {unknown[0]}"
        others |= reaches.keys() - directly
    return Selection(
        changed,
        len(reaches),
        frozenset(directly),
        frozenset(others | always),
        frozenset(always - others),
        everything,
    )


def reached_by(graph: Graph, path: str) -> list[str]:
    """Return the test files that a change of a file, or of any file in a directory, reaches."""
    below = {each for each in graph.sources.files if each == path or each.startswith(f"{path}/")}
    selection = select(graph, frozenset(below))
    return sorted(selection.files - selection.always)


def _everything(changed: Iterable[str]) -> str | None:
    return next((f"{path} changed" for path in sorted(changed) if matches(path, FOR_ALL)), None)


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def modules_of(sources: Sources, path: str) -> set[str]:
    """Return the modules that a file changes: itself, or those that load files beside them."""
    if path.endswith(".py"):
        return {path}
    here = _directory(path)
    while here and not here.startswith(("docs", "tests")):
        if found := {each for each in sources.at if _directory(each) == here}:
            return found
        here = _directory(here)
    return set()
