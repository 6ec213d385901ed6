"""The requests of a partition's datasets that wait for approval, committed and not yet so."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from accountant.checksum import Checksum
from accountant.records import encode
from accountant.records.pending_rows import PendingRow, pending_row_key
from accountant.records.row_changes import RowChanges, unknown_rows

_NONE: Final[dict[str, PendingRow]] = {}
NEVER: Final = 1 << 62
MAX_DROPPED: Final = 16
"""The most rows that one decision drops."""


def due_rows(rows: Iterable[PendingRow], at: int) -> list[PendingRow]:
    """Return the first rows that are not kept any more at a time, in order of their deadline."""
    due = (row for row in rows if row.due <= at)
    return sorted(due, key=lambda row: (row.deadline, row.sequence))[:MAX_DROPPED]


class PendingTable:
    """Rows by dataset and hash, and by analyst and request id; lookups and changes are O(1).

    What waits of a dataset is counted when one more request would: at most 10,000 rows.

    Attributes:
        count: number of rows.
    """

    __slots__ = ("_by_request", "_next_due", "_rows", "count")

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, PendingRow]] = {}
        self._by_request: dict[tuple[str, str, str], str] = {}
        self._next_due: dict[str, int] = {}
        self.count = 0

    def get(self, dataset: str, pending: str) -> PendingRow | None:
        """Return a row, None for a hash without one."""
        rows = self._rows.get(dataset)
        return None if rows is None else rows.get(pending)

    def of_request(self, dataset: str, analyst: str, request_id: str) -> PendingRow | None:
        """Return the row of a request, None for one that has none."""
        pending = self._by_request.get((dataset, analyst, request_id))
        return None if pending is None else self.get(dataset, pending)

    def of(self, dataset: str) -> dict[str, PendingRow]:
        """Return a dataset's rows by hash."""
        return self._rows.get(dataset, _NONE)

    def next_due(self, dataset: str) -> int:
        """Return a time before which each of a dataset's rows is kept."""
        return self._next_due.get(dataset, NEVER)

    def set_next_due(self, dataset: str, at: int) -> None:
        """Set the time before which each of a dataset's rows is kept."""
        if dataset in self._rows:
            self._next_due[dataset] = at

    def put(self, row: PendingRow) -> None:
        """Replace a row."""
        self.remove(*row.key)
        self._next_due[row.dataset] = min(self.next_due(row.dataset), row.due)
        self._rows.setdefault(row.dataset, {})[row.pending] = row
        self._by_request[row.dataset, *row.request_key] = row.pending
        self.count += 1

    def remove(self, dataset: str, pending: str) -> None:
        """Drop a row, if it is there."""
        rows = self._rows.get(dataset, {})
        row = rows.pop(pending, None)
        if row is None:
            return
        del self._by_request[dataset, *row.request_key]
        if not rows:
            self._rows.pop(dataset, None)
            self._next_due.pop(dataset, None)
        self.count -= 1

    def __iter__(self) -> Iterator[PendingRow]:
        """Yield every row, by dataset and hash."""
        for _, rows in sorted(self._rows.items()):
            for _, row in sorted(rows.items()):
                yield row

    def rows(self, known: Container[str] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Return each row for `state` as (key, value), but not of known keys."""
        return unknown_rows(self, lambda row: pending_row_key(*row.key), encode, known)


class PendingChanges(RowChanges[PendingRow]):
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_committed", "_next_due", "_requests")

    def __init__(self, table: PendingTable) -> None:
        super().__init__(table)
        self._committed = table
        self._requests: dict[tuple[str, str, str], str] = {}
        self._next_due: dict[str, int] = {}

    def row_key(self, dataset: str, name: str) -> bytes:
        """Return the key of a row."""
        return pending_row_key(dataset, name)

    def row_value(self, row: PendingRow) -> bytes:
        """Return the bytes of a row."""
        return encode(row)

    def of_request(self, dataset: str, analyst: str, request_id: str) -> PendingRow | None:
        """Return the row of a request as it is now, None for one that has none."""
        pending = self._requests.get((dataset, analyst, request_id))
        if pending is not None:
            return self.get(dataset, pending)
        found = self._committed.of_request(dataset, analyst, request_id)
        return None if found is None else self.get(*found.key)

    def of(self, dataset: str) -> dict[str, PendingRow]:
        """Return a dataset's rows by hash, as of now."""
        rows = dict(self._committed.of(dataset))
        for name, row in self.changed_of(dataset):
            if row is None:
                rows.pop(name, None)
            else:
                rows[name] = row
        return rows

    def put(self, row: PendingRow) -> None:
        """Replace a row."""
        self.change(row.key, row)
        self._requests[row.dataset, *row.request_key] = row.pending
        self._next_due[row.dataset] = min(self._next(row.dataset), row.due)

    def _next(self, dataset: str) -> int:
        found = self._next_due.get(dataset)
        return self._committed.next_due(dataset) if found is None else found

    def take_due(self, dataset: str, at: int) -> int:
        """Drop a dataset's first rows that are not kept any more; return how many."""
        if at < self._next(dataset):
            return 0
        rows = self.of(dataset)
        taken = due_rows(rows.values(), at)
        for row in taken:
            self.change(row.key, None)
            del rows[row.pending]
        self._next_due[dataset] = min((row.due for row in rows.values()), default=NEVER)
        return len(taken)

    def undo(self) -> None:
        """Go back to the last mark."""
        for (dataset, _), _, _ in self._undo:
            self._next_due[dataset] = 0  # unknown: the next decision looks at all of them
        super().undo()

    def absorb(self, sums: Checksum) -> None:
        """Make the changes the table's own, and their sums those of the rows written last."""
        super().absorb(sums)
        for dataset, at in self._next_due.items():
            self._committed.set_next_due(dataset, at)
