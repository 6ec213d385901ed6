"""Outcomes: what is true of each is declared once, and nobody else lists them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from accountant.records.outcomes import Outcome
from tests.test_imports import INSTALLED, ROOT, modules, wrong_in

MOST_FILES = 43


def outcomes_in(node: ast.AST) -> int:
    """Return how many outcomes an expression names."""
    return sum(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "Outcome"
        and each.attr.isupper()
        for each in ast.walk(node)
    )


def enumerations(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what lists two or more outcomes. The keys of a dictionary, as of words, may."""
    for node in ast.walk(tree):
        match node:
            case ast.Set() | ast.Tuple() | ast.List():
                named = sum(outcomes_in(each) for each in node.elts)
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                named = outcomes_in(node)
            case ast.BoolOp():
                named = sum(outcomes_in(each) for each in node.values)
            case ast.Match():
                named = sum(outcomes_in(case.pattern) for case in node.cases)
            case _:
                continue
        if named > 1:
            yield node


def modules_that_name_outcomes() -> list[Path]:
    records = ROOT / "accountant" / "records"
    above = [each for room in INSTALLED for each in modules(room) if records not in each.parents]
    return [each for each in above if "Outcome." in each.read_text()]


def test_no_module_above_the_records_lists_outcomes() -> None:
    def listed(path: Path) -> Iterator[str]:
        for node in enumerations(ast.parse(path.read_text())):
            yield f"line {getattr(node, 'lineno', 0)}: ask the outcome for what is true of it"

    wrong = wrong_in(modules_that_name_outcomes(), listed)
    assert not wrong, wrong


@pytest.mark.parametrize(
    "code",
    [
        "a in {Outcome.GRANTED, Outcome.RESERVED}",
        "STEPS = (Outcome.BEGUN, Outcome.SETTLED)",
        "frozenset([Outcome.BEGUN, Outcome.SETTLED])",
        "a is Outcome.GRANTED or a is Outcome.RESERVED",
        "match a:\n    case Outcome.GRANTED:\n        1\n    case Outcome.RESERVED:\n        2",
    ],
)
def test_a_list_of_outcomes_is_noticed(code: str) -> None:
    assert list(enumerations(ast.parse(code)))


def test_few_modules_name_outcomes() -> None:
    named = modules_that_name_outcomes()
    assert len(named) <= MOST_FILES, sorted(map(str, named))


def test_what_is_true_of_outcomes_agrees() -> None:
    for each in Outcome:
        done = each.charges or each.is_step or each.ends_reservation or each.sets_policy
        assert not (done or each.sets_members or each.sets_limit) or each.is_applied, each
        assert not each.is_applied or each.is_numbered, each
        assert not each.is_numbered or not (each.is_not_considered or each.by_operator), each
        assert not each.sets_one_member or each.sets_members, each
        assert not (each.has_no_effect and each.is_applied), each
