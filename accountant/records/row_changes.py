"""Rows of `state` that are changed or dropped, but not committed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from accountant.checksum import Checksum, crc_of_row

R = TypeVar("R")
Key = tuple[str, str]
"""A dataset, and what a row of it is named by."""


def unknown_rows(
    rows: Iterable[R],
    key_of: Callable[[R], bytes],
    value_of: Callable[[R], bytes],
    known: Container[str],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield rows for `state` as (key, value), but not of known keys, whose bytes nobody needs."""
    for row in rows:
        key = key_of(row)
        if key.decode() not in known:
            yield key, value_of(row)


class RowTable(Protocol[R]):
    """The committed rows.

    Attributes:
        count: number of rows.
    """

    count: int

    def get(self, dataset: str, name: str, /) -> R | None: ...
    def put(self, row: R, /) -> None: ...
    def remove(self, dataset: str, name: str, /) -> None: ...


class RowChanges(Generic[R]):
    """Changes to a table of rows that are decided but not committed.

    A subclass says how a row and its key are written.
    """

    __slots__ = ("_changed", "_crcs", "_table", "_undo")

    def __init__(self, table: RowTable[R]) -> None:
        self._table = table
        self._changed: dict[Key, R | None] = {}
        self._crcs: dict[str, tuple[R | None, int]] = {}  # of the rows written last
        self._undo: list[tuple[Key, bool, R | None]] = []

    def row_key(self, dataset: str, name: str) -> bytes:
        """Return the key of a row."""
        raise NotImplementedError

    def row_value(self, row: R) -> bytes:
        """Return a row's bytes."""
        raise NotImplementedError

    def get(self, dataset: str, name: str) -> R | None:
        """Return a row as it is now, None where there is none."""
        # Every request calls this, and nearly every draft changes no such row.
        if self._changed and (dataset, name) in self._changed:
            return self._changed[dataset, name]
        return self._table.get(dataset, name)

    def change(self, key: Key, row: R | None) -> None:
        """Replace a row; None drops it."""
        self._undo.append((key, key in self._changed, self._changed.get(key)))
        self._changed[key] = row

    def mark(self) -> None:
        """Begin what `undo` undoes."""
        self._undo.clear()

    def undo(self) -> None:
        """Go back to the last mark."""
        while self._undo:
            key, there, before = self._undo.pop()
            if there:
                self._changed[key] = before
            else:
                del self._changed[key]

    @property
    def count(self) -> int:
        """Number of rows as it is now."""
        count = self._table.count
        for key, row in self._changed.items():
            count += (row is not None) - (self._table.get(*key) is not None)
        return count

    def rows(self, sums: Checksum) -> tuple[list[tuple[bytes, bytes | None]], int]:
        """Return the changed rows for `state`, and by how much they move the checksum.

        A removed row's value is None.
        """
        rows: list[tuple[bytes, bytes | None]] = []
        moved = 0
        for (dataset, name), row in self._changed.items():
            key = self.row_key(dataset, name)
            value = None if row is None else self.row_value(row)
            crc = 0 if value is None else crc_of_row(value)
            moved += crc - sums.of(key.decode())
            self._crcs[key.decode()] = row, crc
            rows.append((key, value))
        return rows, moved

    def absorb(self, sums: Checksum) -> None:
        """Make the changes the table's own, and their sums those of the rows written last."""
        for (dataset, name), row in self._changed.items():
            key = self.row_key(dataset, name).decode()
            sums.forget(key)
            if row is None:
                self._table.remove(dataset, name)
                continue
            self._table.put(row)
            written, crc = self._crcs.get(key, (None, 0))
            if written is row:
                sums.put(key, crc)

    def changed_of(self, dataset: str) -> Iterator[tuple[str, R | None]]:
        """Yield the changed rows of a dataset by name, None for a dropped one."""
        for (of, name), row in self._changed.items():
            if of == dataset:
                yield name, row
