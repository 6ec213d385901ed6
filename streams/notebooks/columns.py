"""`SchemaColumns`: what can be asked of a dataset, for programs and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from accountant.display.columns import HEAD, ColumnView, column_views, schema_words
from accountant.questions import Schema
from streams.notebooks.html_table import grid


class SchemaColumns(Sequence[ColumnView]):
    """The columns of a dataset's schema. It is text with `str`, and a table in a notebook.

    Attributes:
        schema: the schema.
        note: what holds for all columns.
    """

    __slots__ = ("_views", "note", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.note = schema_words(schema)
        self._views = column_views(schema)

    @overload
    def __getitem__(self, index: int) -> ColumnView: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ColumnView]: ...

    def __getitem__(self, index: int | slice) -> ColumnView | Sequence[ColumnView]:
        return self._views[index]

    def __len__(self) -> int:
        return len(self._views)

    def __str__(self) -> str:
        rows = (HEAD, *(each.cells for each in self._views))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)])
            for row in rows
        ]
        return "\n".join([*map(str.rstrip, lines), self.note])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return grid(f"Columns: {self.note}", HEAD, [each.cells for each in self._views])
