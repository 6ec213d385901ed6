"""Which fixtures a conftest has, and which of them a test file uses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.selection.sources import Source

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Fixture:
    """One fixture: the function that makes it, what it takes, and whether every test gets it."""

    function: str
    takes: frozenset[str]
    autouse: bool


def fixtures_of(source: Source) -> dict[str, Fixture]:
    """Return the fixtures that a file defines, by name."""
    found: dict[str, Fixture] = {}
    for node in _functions(source.nodes):
        for decorator in node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(call, "attr", getattr(call, "id", None)) != "fixture":
                continue
            options = decorator.keywords if isinstance(decorator, ast.Call) else []
            given = {each.arg: getattr(each.value, "value", None) for each in options}
            name = given.get("name") or node.name
            takes = frozenset(_parameters(node) | _asked_for(ast.walk(node)))
            found[str(name)] = Fixture(node.name, takes, bool(given.get("autouse")))
    return found


def names_used(source: Source) -> set[str]:
    """Return every name that may be a fixture's.

    In a test file, any parameter; in a helper, those of tests and fixtures, since a helper names
    its own parameters as it likes.
    """
    found = _asked_for(source.nodes)
    fixtures = {each.function for each in fixtures_of(source).values()}
    for node in _functions(source.nodes):
        if source.is_test or node.name.startswith("test") or node.name in fixtures:
            found |= _parameters(node)
    return found


def _functions(nodes: Iterable[ast.AST]) -> Iterator[_Function]:
    return (each for each in nodes if isinstance(each, _Function))


def _parameters(node: _Function) -> set[str]:
    arguments = node.args
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _asked_for(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names in `usefixtures` and `getfixturevalue`, and every other text of one word."""
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.isidentifier()
    }
