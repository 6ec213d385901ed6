"""The asks of a partition's datasets, committed and not yet committed."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from accountant.records import encode
from accountant.records.asks import AskRow, ask_row_key
from accountant.records.row_changes import RowChanges, unknown_rows

_NONE: Final[dict[str, AskRow]] = {}


class AskTable:
    """Rows of asks by dataset and number; `get` and changes are O(1).

    Attributes:
        count: number of rows.
    """

    __slots__ = ("_rows", "count")

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, AskRow]] = {}
        self.count = 0

    def get(self, dataset: str, name: str) -> AskRow | None:
        """Return an ask by its number as a text, None where there is none."""
        return self._rows.get(dataset, _NONE).get(name)

    def of(self, dataset: str) -> list[AskRow]:
        """Return a dataset's asks, the oldest first; any thread may call this."""
        return sorted(self._rows.get(dataset, _NONE).copy().values(), key=_number)

    def put(self, row: AskRow) -> None:
        """Replace an ask."""
        rows = self._rows.setdefault(row.dataset, {})
        self.count += str(row.ask) not in rows
        rows[str(row.ask)] = row

    def remove(self, dataset: str, name: str) -> None:
        """Drop an ask, if it is there."""
        if self._rows.get(dataset, {}).pop(name, None) is not None:
            self.count -= 1

    def datasets(self) -> list[str]:
        """Return the datasets that have asks."""
        return [name for name, rows in self._rows.items() if rows]

    def __iter__(self) -> Iterator[AskRow]:
        """Yield every ask, in the order of their keys."""
        found = [row for rows in self._rows.values() for row in rows.values()]
        return iter(sorted(found, key=lambda row: ask_row_key(row.dataset, row.ask)))

    def rows(self, known: Container[str] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Return each row for `state` as (key, value), but not of known keys."""
        return unknown_rows(self, lambda row: ask_row_key(row.dataset, row.ask), encode, known)


class AskChanges(RowChanges[AskRow]):
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_committed",)

    def __init__(self, table: AskTable) -> None:
        super().__init__(table)
        self._committed = table

    def of(self, dataset: str) -> list[AskRow]:
        """Return a dataset's asks as they are now, the oldest first."""
        rows: dict[str, AskRow | None] = {str(row.ask): row for row in self._committed.of(dataset)}
        rows.update(self.changed_of(dataset))
        return sorted((row for row in rows.values() if row is not None), key=_number)

    def row_key(self, dataset: str, name: str) -> bytes:
        """Return the key of an ask's row."""
        return ask_row_key(dataset, int(name))

    def row_value(self, row: AskRow) -> bytes:
        """Return the bytes of an ask's row."""
        return encode(row)

    def put(self, row: AskRow) -> None:
        """Replace an ask."""
        self.change((row.dataset, str(row.ask)), row)

    def remove(self, dataset: str, name: str) -> None:
        """Drop an ask."""
        self.change((dataset, name), None)


def _number(row: AskRow) -> int:
    return row.ask
