from __future__ import annotations

import gc

from accountant.records.names import is_name
from accountant.views.usage import OTHERS, Rows, Usage, Vacancies, row_of, views_of


def test_no_analyst_can_have_the_name_of_the_others() -> None:
    assert not is_name(OTHERS)


def test_rows_are_shown_by_analyst_with_the_others_at_the_end() -> None:
    rows: Rows = {}
    for name in ("eve", "ana", "0", "Zoe", OTHERS):
        row_of(rows, name, Vacancies(), ("epsilon", 1))
    assert [view.analyst for view in views_of("census", rows)] == ["0", "Zoe", "ana", "eve", OTHERS]


def test_a_usage_row_counts_each_decision_once() -> None:
    row = Usage("epsilon", 1)
    assert row.take(3, 1_000, 5)
    assert not row.take(3, 1_000, 5)
    assert not row.take(2, 1_000, None)
    assert (row.granted, row.refused, row.spent, row.sequence) == (1, 0, 5, 3)


def test_rows_are_nothing_for_the_garbage_collector() -> None:
    assert not gc.is_tracked(Usage("epsilon", 1))
