"""The public API changes only on purpose, and importing a package loads no more than it needs."""

from __future__ import annotations

import ast
import json
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import accountant
import streams
import streams.client
from accountant.records.outcomes import Reason
from tests.every_case import every_case
from tests.public_api import FILE, described

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ("Accountant", "AsyncAccountant")


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@every_case("name", CLIENTS)
def test_streams_offers_the_client_classes(name: str) -> None:
    assert getattr(streams, name) is getattr(streams.client, name)


def test_a_program_imports_the_client_from_streams() -> None:
    program = "from streams import Accountant, AsyncAccountant; print(Accountant, AsyncAccountant)"
    assert run(program).count("streams.client.") == 2


def test_importing_streams_alone_loads_no_client() -> None:
    client = {"apsw", "aiokafka", "httpx", "streams.client"}
    assert run(f"import streams, sys; print({client} & sys.modules.keys())") == "set()\n"


def test_dir_of_streams_lists_the_client_classes_before_they_are_loaded() -> None:
    names = run("import streams; print(*dir(streams))").split()
    assert {*CLIENTS} <= {*names}


def test_help_of_streams_shows_the_line_to_write_and_the_client_classes() -> None:
    text = pydoc.render_doc(streams, renderer=pydoc.plaintext)
    assert "from streams import Accountant" in text
    assert all(f"class {name}" in text for name in CLIENTS)


def test_an_unknown_name_of_streams_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'streams' has no attribute 'Acountant'"):
        _ = streams.Acountant


@every_case("name", CLIENTS)
def test_importing_a_client_from_accountant_fails_with_the_line_to_write(name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from accountant import {name}")
    assert str(caught.value) == (
        f"{name} is in the package `streams`. Write `from streams import {name}`."
    )


def test_an_unknown_name_of_accountant_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'accountant' has no attribute 'Ledger'"):
        _ = accountant.Ledger


def test_help_of_accountant_points_to_streams() -> None:
    text = pydoc.render_doc(accountant, renderer=pydoc.plaintext)
    assert "from streams import Accountant" in text
    assert not {*CLIENTS} & {*dir(accountant)}


def test_the_public_api_is_as_recorded() -> None:
    recorded, current = json.loads(FILE.read_text()), described()
    changed = [
        f"{kind} {name}: {difference(recorded[kind].get(name), current[kind].get(name))}"
        for kind in ("imports", "methods", "wire")
        for name in {**recorded[kind], **current[kind]}
        if recorded[kind].get(name) != current[kind].get(name)
    ]
    changed += [
        f"{kind}: {difference(recorded[kind], current[kind])}"
        for kind in ("filters", "outcomes", "reasons")
        if recorded[kind] != current[kind]
    ]
    assert not changed, (
        "The public API has changed. If that is intended, say it in CHANGELOG.md under "
        "[Unreleased] and run `python -m tests.public_api`"
    )


def difference(recorded: Any, current: Any) -> str:
    """Return what was removed and what was added."""
    one, other = ({*map(str, items_of(each))} for each in (recorded, current))
    return f"removed {sorted(one - other)}, added {sorted(other - one)}"


def items_of(value: Any) -> list[Any]:
    return list(value.items()) if isinstance(value, dict) else list(value or ())


def test_reason_codes_are_only_appended_or_inserted() -> None:
    recorded = json.loads(FILE.read_text())["reasons"]
    assert [each for each in Reason if each in recorded] == recorded


# Classes that share a name because they are two implementations of one interface: the files of
# each, and the interface.
SAME_NAME: dict[str, tuple[tuple[str, ...], str]] = {}


def test_no_two_classes_have_the_same_name() -> None:
    files: dict[str, list[str]] = {}
    for package in ("accountant", "streams", "research"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    files.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    repeated = {name: tuple(paths) for name, paths in files.items() if len(paths) > 1}
    allowed = {name: paths for name, (paths, _) in SAME_NAME.items()}
    assert repeated == allowed, "rename one of them, or list the pair with its interface"
