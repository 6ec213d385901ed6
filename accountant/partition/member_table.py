"""The members of a partition's datasets, committed and not yet committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from accountant.checksum import Checksum, crc_of_row
from accountant.records import encode
from accountant.records.members import MemberRow, member_row_key

_NOBODY: Final[dict[str, MemberRow]] = {}


class MemberTable:
    """Rows of members by dataset and name; `get` and changes are O(1).

    Attributes:
        count: number of rows.
    """

    __slots__ = ("_rows", "count")

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, MemberRow]] = {}
        self.count = 0

    def get(self, dataset: str, name: str) -> MemberRow | None:
        """Return a member's row, None for anybody else."""
        rows = self._rows.get(dataset)
        return None if rows is None else rows.get(name)

    def of(self, dataset: str) -> dict[str, MemberRow]:
        """Return the rows of a dataset's members by name."""
        return self._rows.get(dataset, _NOBODY)

    def memberships(self, name: str) -> list[MemberRow]:
        """Return a member's rows by dataset; any thread may call this."""
        datasets = sorted(self._rows.copy().items())
        return [row for _, rows in datasets if (row := rows.get(name)) is not None]

    def put(self, row: MemberRow) -> None:
        """Replace a member's row."""
        rows = self._rows.setdefault(row.dataset, {})
        self.count += row.member not in rows
        rows[row.member] = row

    def remove(self, dataset: str, name: str) -> None:
        """Drop a member's row, if it is there."""
        rows = self._rows.get(dataset, {})
        if rows.pop(name, None) is not None:
            self.count -= 1

    def __iter__(self) -> Iterator[MemberRow]:
        """Yield every row, by dataset and name."""
        for _, rows in sorted(self._rows.items()):
            for _, row in sorted(rows.items()):
                yield row


class MemberChanges:
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_changed", "_crcs", "_table", "_undo")

    def __init__(self, table: MemberTable) -> None:
        self._table = table
        self._changed: dict[tuple[str, str], MemberRow | None] = {}
        self._crcs: dict[str, tuple[MemberRow | None, int]] = {}  # of the rows written last
        self._undo: list[tuple[tuple[str, str], bool, MemberRow | None]] = []

    def get(self, dataset: str, name: str) -> MemberRow | None:
        """Return a member's row as it is now."""
        # Every request calls this, and nearly every draft changes no member.
        if self._changed and (dataset, name) in self._changed:
            return self._changed[dataset, name]
        return self._table.get(dataset, name)

    def put(self, row: MemberRow) -> None:
        """Replace a member's row."""
        self._change((row.dataset, row.member), row)

    def remove(self, dataset: str, name: str) -> None:
        """Drop a member's row."""
        self._change((dataset, name), None)

    def _change(self, key: tuple[str, str], row: MemberRow | None) -> None:
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
            key = member_row_key(dataset, name)
            value = None if row is None else encode(row)
            crc = 0 if value is None else crc_of_row(value)
            moved += crc - sums.of(key.decode())
            self._crcs[key.decode()] = row, crc
            rows.append((key, value))
        return rows, moved

    def absorb(self, sums: Checksum) -> None:
        """Make the changes the table's own, and their sums those of the rows written last."""
        for (dataset, name), row in self._changed.items():
            key = member_row_key(dataset, name).decode()
            sums.forget(key)
            if row is None:
                self._table.remove(dataset, name)
                continue
            self._table.put(row)
            written, crc = self._crcs.get(key, (None, 0))
            if written is row:
                sums.put(key, crc)
