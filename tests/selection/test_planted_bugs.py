"""`make test-changed` alone finds each planted bug: it selects the tests that the bug fails."""

from __future__ import annotations

from tests.mutants.planted import ROOT, all_planted
from tests.selection.planted import changed_by
from tests.selection.selection import graph_of, select

OPENS = ("tests/mutants/*.patch",)
STARTS = ()


def test_a_planted_bug_selects_the_tests_that_find_it() -> None:
    graph = graph_of(ROOT)
    missed = []
    for bug in all_planted():
        selection = select(graph, changed_by(bug))
        # A test that always runs finds it, too; so would all tests, but then nothing is selected.
        assert selection.everything is None, f"{bug.name}: {selection.everything}"
        files = {test.partition("::")[0] for test in bug.caught_by}
        missed += [f"{bug.name}: {file}" for file in sorted(files - selection.files)]
    assert not missed, "These tests find a bug and are not selected:\n" + "\n".join(missed)
