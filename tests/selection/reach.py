"""What each test file reaches: by imports, fixtures, and what it declares."""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import Final

from tests.selection.declared import (
    Declared,
    declared,
    matches,
    opens_files,
    places,
    starts_processes,
)
from tests.selection.fixtures import Fixture, fixtures_of, names_used
from tests.selection.sources import Import, Source, Sources

# Commands that import a server only when they run. A test can reach it by such a command only if
# one of its texts has the command's name.
RUN_BY_NAME: Final = {
    path: PurePosixPath(path).stem
    for path in (
        "streams/cli/curator.py",
        "streams/cli/gateway.py",
        "streams/cli/serve.py",
        "streams/cli/worker.py",
    )
}

# The module of a command is imported when the command is chosen, by its place in this table.
COMMAND_TABLE: Final = "streams/cli/command_table.py"
_PLACE: Final = re.compile(r'"([\w-]+)": CommandEntry\(\s*"([\w.]+)\.\w+"')


@dataclass
class Reach:
    """What one test file reaches.

    Attributes:
        own: files in `tests` that it runs, itself included.
        modules: Python files that it can import, also in other processes.
        directly: those that it imports itself.
        reads: patterns of other files that it opens.
        undeclared: why it always runs: files that do not declare what they open or start.
    """

    own: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    directly: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    undeclared: list[str] = field(default_factory=list)

    def has(self, path: str) -> bool:
        return path in self.modules or matches(path, tuple(self.reads))


@dataclass
class _Conftest:
    """What a conftest or a plugin imports: for every test, and for those that use a fixture."""

    fixtures: dict[str, Fixture]
    always: set[str] = field(default_factory=set)
    by_fixture: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    by_any: set[str] = field(default_factory=set)


def _plugins_of(sources: Sources) -> dict[str, str]:
    """Return the paths of the modules that the outermost conftest names as plugins, by module."""
    conftest = sources.at.get("tests/conftest.py")
    named = [
        node.value
        for node in (() if conftest is None else conftest.tree.body)
        if isinstance(node, ast.Assign)
        if any(getattr(target, "id", None) == "pytest_plugins" for target in node.targets)
    ]
    modules = {text for value in named for text in ast.literal_eval(value)}
    return {module: sources.named[module].path for module in modules & sources.named.keys()}


def _commands_of(sources: Sources) -> dict[str, str]:
    """Return the paths of the modules of the commands, by name."""
    if COMMAND_TABLE not in sources.files:
        return {}
    found = _PLACE.findall((sources.root / COMMAND_TABLE).read_text("utf-8"))
    return {name: sources.named[f"streams.cli.{module}"].path for name, module in found}


class Graph:
    """The imports of a tree."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._places = places(sources)
        self._plugins = _plugins_of(sources)
        self._commands = _commands_of(sources)
        self._edges: dict[str, set[str]] = {}
        self._when_run: dict[str, set[str]] = {}
        self._conftests: dict[str, _Conftest] = {}
        self._declared: dict[str, Declared] = {}
        self._texts: dict[str, set[str]] = {}
        self._names = cache(lambda path: names_used(sources.at[path]))
        self._opens = cache(lambda path: opens_files(sources.at[path], self._places[path]))
        self._starts = cache(lambda path: starts_processes(sources.at[path]))
        for path, source in sources.at.items():
            self._add(path, source)

    def _add(self, path: str, source: Source) -> None:
        loaded = list(self.sources.loaded(source))
        self._declared[path] = says = declared(source)
        edges = {each for _, found in loaded for each in found}
        for module in says.starts or ():
            edges |= self.sources.targets(source, Import(module))
        self._edges[path] = edges
        if path in RUN_BY_NAME:
            self._edges[path] = {e for i, found in loaded if i.within is None for e in found}
            self._when_run[path] = edges
        if path.endswith("conftest.py") or path in self._plugins.values():
            self._conftests[path] = made = _Conftest(fixtures_of(source))
            functions = {each.function for each in made.fixtures.values()}
            for each, imported in loaded:
                found = imported - {self._plugins.get(each.name, path)}
                if each.within is None or each.within.startswith("pytest_"):
                    made.always |= found
                elif each.within in functions:
                    made.by_fixture[each.within] |= found
                else:
                    made.by_any |= found

    @cached_property
    def reaches(self) -> dict[str, Reach]:
        """What each test file reaches, by its path."""
        found = {path: self._reach(path) for path in self.sources.tests()}
        gc.unfreeze()
        if self.sources.frozen:
            gc.freeze()
        return found

    def _reach(self, path: str) -> Reach:
        own, used = self._own(path)
        reach = Reach(own)
        start = set(own)
        for conftest, functions in used.items():
            about = self._conftests[conftest]
            start |= about.always
            if functions:
                start |= about.by_any.union(*(about.by_fixture[each] for each in functions))
                for module in self._declared[conftest].starts or ():
                    start |= self.sources.targets(self.sources.at[conftest], Import(module))
                reach.reads |= {*(self._declared[conftest].reads or ())}
        texts = set[str]().union(*(self._texts_of(each) for each in (*own, *used)))
        if any(each.member == "command" for each in self.sources.at[path].imports):
            texts |= self._commands.keys()  # it has every command
        reach.modules = self._closure(start, texts) | used.keys()
        outside = {each for each in reach.modules if self._is_outside(each)}
        for each in sorted(own | outside | used.keys()):
            says = self._declared[each]
            if each in own or each in outside:
                reach.reads |= {*(says.reads or ())}
            if says.reads is None and self._opens(each):
                reach.undeclared.append(f"{each} opens files")
            if says.starts is None and self._starts(each):
                reach.undeclared.append(f"{each} starts processes")
        source = self.sources.at[path]
        for imported in source.imports:
            reach.directly |= self.sources.targets(source, imported, exact=True)
        return reach

    def _is_outside(self, path: str) -> bool:
        return path.partition("/")[0] not in {"accountant", "streams", "tests"}

    def _texts_of(self, path: str) -> set[str]:
        """Return the words of a file's texts, docstrings left out."""
        if path not in self._texts:
            nodes = self.sources.at[path].nodes
            said = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
            self._texts[path] = {
                word
                for node in nodes
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
                if id(node) not in said
                for word in node.value.split()
            }
        return self._texts[path]

    def _own(self, path: str) -> tuple[set[str], dict[str, set[str]]]:
        """Return the files in `tests` that a test file runs, and the fixtures' functions it uses.

        A fixture may import more files of `tests`, which may name more fixtures.
        """
        own = self._in_tests({path})
        above = self._conftests_above(path)
        used: dict[str, set[str]] = {each: set() for each in above}
        names = set[str]()
        while True:
            before = len(own), sum(map(len, used.values())), len(names)
            for each in own:
                names |= self._names(each)
            for conftest in above:
                about = self._conftests[conftest]
                for name, fixture in about.fixtures.items():
                    if fixture.autouse or name in names:
                        used[conftest].add(fixture.function)
                        names |= fixture.takes
                own |= self._in_tests(about.always)
                for function in used[conftest]:
                    own |= self._in_tests(about.by_fixture[function] | about.by_any)
            if before == (len(own), sum(map(len, used.values())), len(names)):
                return own, used

    def _conftests_above(self, path: str) -> list[str]:
        parts = path.split("/")[:-1]
        above = ["/".join([*parts[:i], "conftest.py"]) for i in range(len(parts), 0, -1)]
        return [each for each in (*above, *self._plugins.values()) if each in self._conftests]

    def _in_tests(self, start: set[str]) -> set[str]:
        inside = {each for each in start if self.sources.at[each].in_tests}
        waiting = [*inside]
        while waiting:
            for each in self._edges[waiting.pop()] - inside:
                if self.sources.at[each].in_tests:
                    inside.add(each)
                    waiting.append(each)
        return inside

    def _closure(self, start: set[str], texts: set[str]) -> set[str]:
        found = set(start)
        waiting = [*start]
        while waiting:
            path = waiting.pop()
            more = self._edges[path]
            if path in RUN_BY_NAME and RUN_BY_NAME[path] in texts:
                more = self._when_run[path]
            if path == COMMAND_TABLE:
                more = more | {self._commands[each] for each in texts & self._commands.keys()}
            for each in more - found:
                found.add(each)
                waiting.append(each)
        return found
