"""`make test-changed` alone finds each planted bug: it selects the tests that the bug fails.

And it selects few others.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.planted import ROOT, all_planted
from tests.selection.planted import changed_by
from tests.selection.reach import Graph
from tests.selection.selection import OPT_IN, graph_of, reached_by, select

OPENS = ("tests/mutants/*.patch",)
STARTS = ()


@pytest.fixture(scope="module")
def graph() -> Graph:
    """The imports of this tree."""
    return graph_of(ROOT)


def test_a_planted_bug_selects_the_tests_that_find_it(graph: Graph) -> None:
    missed = []
    for bug in all_planted():
        selection = select(graph, changed_by(bug))
        # A test that always runs finds it, too; so would all tests, but then nothing is selected.
        assert selection.everything is None, f"{bug.name}: {selection.everything}"
        files = {test.partition("::")[0] for test in bug.caught_by}
        missed += [f"{bug.name}: {file}" for file in sorted(files - selection.files)]
    assert not missed, "These tests find a bug and are not selected:\n" + "\n".join(missed)


def test_few_test_files_run_after_every_change(graph: Graph) -> None:
    causes = Counter(each for reach in graph.reaches.values() for each in reach.undeclared)
    always = sum(1 for reach in graph.reaches.values() if reach.undeclared)
    assert always <= 80, causes.most_common(5)


def test_a_change_of_a_page_reaches_few_test_files(graph: Graph) -> None:
    asked_for = tuple(f"tests/{name}/" for name in OPT_IN)
    found = [path for path in reached_by(graph, "streams/pages") if not path.startswith(asked_for)]
    # It was half of them once: a change of a page is tested by what shows pages.
    others = [path for path in found if not path.startswith("tests/streams/pages/")]
    assert 20 <= len(others) <= len(graph.reaches) * 70 / 620, others
