"""GroupSet as SQL over the integers that `streams.sources.cells` makes of cells."""

from __future__ import annotations

from functools import singledispatch

from accountant.questions.groups import ColumnGroups, GroupSet


@singledispatch
def group_sql(groups: GroupSet, value: str) -> str:
    """Return the SQL of the position of a row's group.

    Args:
        value: SQL of the column's integer, not NULL.
    """
    raise TypeError(f"no SQL of {type(groups).__name__}")


@group_sql.register
def _of_column(groups: ColumnGroups, value: str) -> str:
    return value
