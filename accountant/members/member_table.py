"""The members of a partition's datasets, committed and not yet committed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from accountant.records import encode
from accountant.records.members import MemberRow, member_row_key
from accountant.records.row_changes import RowChanges, unknown_rows

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

    def rows(self, known: Container[str] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Return each row for `state` as (key, value), but not of known keys."""
        return unknown_rows(
            self, lambda row: member_row_key(row.dataset, row.member), encode, known
        )


class MemberChanges(RowChanges[MemberRow]):
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_committed",)

    def __init__(self, table: MemberTable) -> None:
        super().__init__(table)
        self._committed = table

    def of(self, dataset: str) -> Iterable[MemberRow]:
        """Return the rows of a dataset's members as they are now."""
        rows: dict[str, MemberRow | None] = {**self._committed.of(dataset)}
        rows.update(self.changed_of(dataset))
        return [row for row in rows.values() if row is not None]

    def row_key(self, dataset: str, name: str) -> bytes:
        """Return the key of a member's row."""
        return member_row_key(dataset, name)

    def row_value(self, row: MemberRow) -> bytes:
        """Return the bytes of a member's row."""
        return encode(row)

    def put(self, row: MemberRow) -> None:
        """Replace a member's row."""
        self.change((row.dataset, row.member), row)

    def remove(self, dataset: str, name: str) -> None:
        """Drop a member's row."""
        self.change((dataset, name), None)
