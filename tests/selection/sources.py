"""The Python files of a tree: which modules there are, and what each of them may import.

An import counts wherever it is written: at the top, in a function, in the text of a program that
a string contains, or as the exact name of a module in a string. Only `if TYPE_CHECKING:` loads
nothing.
"""

from __future__ import annotations

import ast
import gc
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_INSTALLED: Final = ("accountant/", "streams/")
_PASSED_OVER: Final = {"__pycache__", "build", "dist", "node_modules"}
_IN_TEXT: Final = re.compile(r"\b(?:from|import)\s+([a-z_][\w.]*)(?:\s+import\s+\(?([\w, ]+))?")
# A module or a program by its name, in a string.
_NAMED: Final = re.compile(r"[a-z_]\w*(?:\.\w+)+|[\w/.-]+\.py")
_TYPING: Final = "if TYPE_CHECKING"
_ON_DEMAND: Final = "__getattr__"


@dataclass(frozen=True)
class Import:
    """One import of a source.

    Attributes:
        name: of the module.
        member: what is imported from it, if it says so.
        within: the outermost function or class method that does it, `None` at the top.
    """

    name: str
    member: str | None = None
    within: str | None = None


@dataclass(frozen=True)
class Source:
    """One Python file.

    Attributes:
        path: from the root of the tree, with `/`.
        module: its dotted name.
        tree: what it says; empty in `accountant` and `streams`, of which only imports matter.
        nodes: every node of it.
        imports: all of them, as written.
        loads_on_demand: whether it imports some of its names when they are first used.
    """

    path: str
    module: str
    tree: ast.Module
    nodes: list[ast.AST]
    imports: tuple[Import, ...]
    loads_on_demand: bool

    @property
    def in_tests(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def is_test(self) -> bool:
        return self.in_tests and self.path.rpartition("/")[2].startswith("test_")

    @property
    def directory(self) -> str:
        return self.path.rpartition("/")[0]


def module_of(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read(path: str, text: str) -> Source:
    tree = ast.parse(text)
    nodes: list[ast.AST] = []
    imports = tuple(dict.fromkeys(_imports(tree, nodes, text_too=path.startswith("tests/"))))
    on_demand = any(isinstance(e, ast.FunctionDef) and e.name == _ON_DEMAND for e in tree.body)
    if path.startswith(_INSTALLED):
        tree, nodes = ast.Module([], []), []
    return Source(path, module_of(path), tree, nodes, imports, on_demand)


def _imports(tree: ast.Module, nodes: list[ast.AST], *, text_too: bool) -> Iterator[Import]:
    waiting: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while waiting:
        node, within = waiting.pop()
        nodes.append(node)
        match node:
            case ast.Import():
                yield from (Import(alias.name, None, within) for alias in node.names)
                continue
            case ast.ImportFrom():
                name = node.module or ""
                yield from (Import(name, alias.name, within) for alias in node.names)
                continue
            case ast.Constant(value=str(text)):
                if _NAMED.fullmatch(text):
                    yield Import(text, None, within)
                elif text_too and "import" in text:
                    yield from _in_text(text, within)
                continue
            case ast.Name() | ast.Constant():
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                within = within or node.name
            case ast.Lambda():
                within = within or "lambda"
            case ast.If() if _is_typing(node.test):
                waiting += [(each, _TYPING) for each in node.body]
                waiting += [(each, within) for each in node.orelse]
                continue
        waiting += [(child, within) for child in ast.iter_child_nodes(node)]


def _is_typing(test: ast.expr) -> bool:
    return getattr(test, "attr", getattr(test, "id", None)) == "TYPE_CHECKING"


def _in_text(text: str, within: str | None) -> Iterator[Import]:
    for name, members in _IN_TEXT.findall(text):
        yield Import(name, None, within) if not members else Import(name, "", within)
        for member in members.replace(" ", "").split(","):
            if member:
                yield Import(name, member, within)


@dataclass
class Sources:
    """All Python files of a tree.

    Attributes:
        root: its directory.
        files: every file of it, from the root, with `/`.
        at: the Python files, by path.
        named: the same, by module.
        frozen: whether the collector of this process passes over what it has.
    """

    root: Path
    files: frozenset[str]
    at: dict[str, Source] = field(default_factory=dict)
    named: dict[str, Source] = field(default_factory=dict)
    frozen: bool = False

    @classmethod
    def under(cls, root: Path, *, deleted: frozenset[str] = frozenset()) -> Sources:
        """Read the tree; a deleted module remains one, so that what imports it is found."""
        made = cls(root, frozenset(_files(root)), frozen=gc.get_freeze_count() > 0)
        # The collector would walk through all trees again and again: `Graph` lets it do so again.
        gc.disable()
        for path in sorted(made.files | deleted):
            if path.endswith(".py"):
                text = (root / path).read_text("utf-8") if path in made.files else ""
                source = read(path, text)
                made.at[path] = made.named[source.module] = source
        gc.freeze()
        gc.enable()
        return made

    def tests(self) -> list[str]:
        return [path for path, source in self.at.items() if source.is_test and path in self.files]

    def targets(self, source: Source, each: Import, *, exact: bool = False) -> set[str]:
        """Return the paths of the modules that an import loads.

        Args:
            exact: leave out the packages above, and follow a name that a package only passes on
                to the module that defines it.
        """
        name = self._name(source, each.name)
        if name is None:
            return self._run_by_path(source, each)
        found = {name}
        if each.member is None and f"{name}.__main__" in self.named:
            found.add(f"{name}.__main__")  # `python -m` runs it
        if each.member:
            member = f"{name}.{each.member}"
            if member in self.named:
                found.add(member)
            elif self.named[name].loads_on_demand or exact:
                found |= self._homes(self.named[name], each.member, on_demand=not exact)
        elif each.member is None and self.named[name].loads_on_demand:
            found |= self._homes(self.named[name], None, on_demand=True)
        if not exact:
            for module in [*found]:
                parts = module.split(".")
                found |= {".".join(parts[:i]) for i in range(1, len(parts))} & self.named.keys()
        return {self.named[module].path for module in found}

    def _name(self, source: Source, name: str) -> str | None:
        if name in self.named:
            return name
        # A program finds what is beside it.
        beside = f"{source.directory.replace('/', '.')}.{name}"
        return beside if not source.in_tests and beside in self.named else None

    def _run_by_path(self, source: Source, each: Import) -> set[str]:
        path = each.name
        if each.member is not None or not path.endswith(".py") or path in {"__init__.py", ".py"}:
            return set()
        beside = {path, f"{source.directory}/{path}"} & self.at.keys()
        others = {other for other in self.at if other.endswith(f"/{path}")} if not beside else set()
        return {
            other
            for other in beside | others
            if not self.at[other].is_test and (other in beside or not self.at[other].in_tests)
        }

    def _homes(self, package: Source, member: str | None, *, on_demand: bool) -> set[str]:
        """Return the modules from which a package has a name."""
        found = set[str]()
        for each in package.imports:
            at_once = each.within is None and not on_demand
            typing = each.within == _TYPING and member in {None, each.member}
            if (at_once and each.member == member) or typing or each.within == _ON_DEMAND:
                if self._name(package, each.name) is None:
                    continue
                submodule = f"{each.name}.{each.member}"
                found.add(submodule if submodule in self.named else each.name)
        return found & self.named.keys()

    def loaded(self, source: Source) -> Iterator[tuple[Import, set[str]]]:
        """Yield each import that loads modules of the tree, with their paths."""
        for each in source.imports:
            if each.within == _TYPING or (each.within == _ON_DEMAND and source.loads_on_demand):
                continue
            if found := self.targets(source, each) - {source.path}:
                yield each, found


def _files(root: Path) -> Iterator[str]:
    for directory, inner, names in os.walk(root, followlinks=True):
        here = Path(directory)
        top = here == root
        inner[:] = [
            each
            for each in inner
            if each not in _PASSED_OVER and (not each.startswith(".") or (top and each == ".ci"))
        ]
        yield from (
            (here / each).relative_to(root).as_posix()
            for each in names
            if not each.endswith(".pyc")
        )
