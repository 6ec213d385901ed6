"""Test the tests: the tests that a patch names must fail with its planted bug, by an assertion.

`make mutants` and `make nightly` try all bugs; `make test` tries the five fastest, and whether
every patch applies. docs/explanation/testing.md says how to add one.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final, TypeGuard

import pytest

from tests.mutants.planted import ROOT, Planted, all_planted, apply, assert_caught, copied, run
from tests.nightly import NIGHTLY

LEAST: Final = 40
FASTEST: Final = (
    "cap_ignored",
    "chain_not_checked_at_a_start",
    "clock_goes_back",
    "expired_after_the_watermark",
    "repeat_charged_once",
)
ALL: Final = all_planted()
# `make test-sources` tries those that need its server.
TRIED: Final = [bug for bug in ALL if (NIGHTLY and not bug.needs_postgresql) or bug.name in FASTEST]
slow = pytest.mark.slow
# The tests run in a process of their own, with a time limit of their own.
patient = pytest.mark.timeout(300)


def parameter(bug: Planted) -> Any:
    marks = [pytest.mark.kafka] if bug.needs_broker else []
    return pytest.param(bug, id=bug.name, marks=marks)


@slow
@patient
@pytest.mark.parametrize("bug", [parameter(bug) for bug in TRIED])
def test_a_planted_bug_is_caught(bug: Planted, tmp_path: Path) -> None:
    assert_caught(bug, within=tmp_path)


@slow
@pytest.mark.timeout(1200)
def test_without_a_bug_the_same_tests_pass(tmp_path: Path) -> None:
    named = dict.fromkeys(test for bug in TRIED for test in bug.caught_by)
    ran = run(named, at=copied(tmp_path), within=1000)
    assert ran.code == 0, ran.output


def test_every_patch_applies() -> None:
    for bug in ALL:
        apply(bug.path, "--check", at=ROOT)


def test_every_patch_names_existing_tests() -> None:
    tests: dict[str, set[str]] = {}
    for bug in ALL:
        for named in bug.caught_by:
            file, _, test = named.partition("[")[0].partition("::")
            if file not in tests:
                source = ROOT / file
                assert source.is_file(), f"{bug.path.name} names {file}, which does not exist"
                tests[file] = names_of_tests(source)
            assert test in tests[file], f"{bug.path.name} names {named}, which does not exist"


def names_of_tests(source: Path) -> set[str]:
    """Return the names of the tests in a file, those in a class as `Class::test`."""
    found = set[str]()
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if is_function(each)}
        elif is_function(node):
            found.add(node.name)
    return found


def is_function(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def test_every_patch_changes_only_the_product() -> None:
    for bug in ALL:
        lines = bug.path.read_text("utf-8").splitlines()
        changed = [line.split(" b/")[1] for line in lines if line.startswith("diff --git ")]
        assert changed
        assert all(file.startswith(("accountant/", "streams/")) for file in changed), bug.name


def test_there_are_enough_and_the_fastest_are_among_them() -> None:
    assert len(ALL) >= LEAST
    assert set(FASTEST) <= {bug.name for bug in ALL}
    assert len(FASTEST) == 5
    assert not [bug.name for bug in ALL if bug.name in FASTEST and bug.needs_broker]


def test_an_incomplete_header_is_an_error(tmp_path: Path) -> None:
    (patch,) = [bug.path for bug in ALL if bug.name == FASTEST[0]]
    for line in ("what: ", "breaks: ", "caught-by: "):
        rest = [each for each in patch.read_text().splitlines() if not each.startswith(line)]
        (tmp_path / "a.patch").write_text("\n".join(rest))
        with pytest.raises(ValueError, match=r"a\.patch"):
            Planted.read(tmp_path / "a.patch")
