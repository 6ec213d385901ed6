"""The reservations of a partition's datasets, committed and not yet committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import Final

from accountant.checksum import Checksum
from accountant.records import encode
from accountant.records.reservation_rows import reservation_row_key
from accountant.records.row_changes import RowChanges, unknown_rows
from accountant.reservations.deadlines import DeadlineIndex, ReservationCounts
from accountant.reservations.reservation import NEVER, Reservation, row_of

_NONE: Final[dict[str, Reservation]] = {}


def first_final(rows: Iterable[Reservation], at: int, maximum: int) -> list[Reservation]:
    """Return the first reservations that are final at a time, in order of deadline."""
    final = (row for row in rows if row.due <= at)
    return sorted(final, key=lambda row: row.order)[:maximum]


class ReservationTable:
    """Reservations by dataset and grant; `get`, `open_of_holder` and changes are O(1).

    Attributes:
        count: number of rows.
    """

    __slots__ = ("_deadlines", "_holders", "_next_due", "_rows", "count")

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Reservation]] = {}
        self._deadlines: dict[str, DeadlineIndex] = {}
        self._holders: dict[str, Counter[str]] = {}
        self._next_due: dict[str, int] = {}
        self.count = 0

    def get(self, dataset: str, grant: str) -> Reservation | None:
        """Return a reservation, None for a grant without a row."""
        rows = self._rows.get(dataset)
        return None if rows is None else rows.get(grant)

    def of(self, dataset: str) -> dict[str, Reservation]:
        """Return a dataset's reservations by grant."""
        return self._rows.get(dataset, _NONE)

    def open_of(self, dataset: str) -> list[Reservation]:
        """Return a dataset's open reservations in order of deadline; any thread may call this."""
        rows = self._rows.get(dataset, _NONE).copy().values()
        return sorted((row for row in rows if row.is_open), key=lambda each: each.order)

    def open_of_holder(self, dataset: str, name: str) -> int:
        """Return how many open reservations of a dataset a name holds, as analyst or engine."""
        holders = self._holders.get(dataset)
        return 0 if holders is None else holders[name]

    def next_due(self, dataset: str) -> int:
        """Return a time before which none of a dataset's reservations is final."""
        return self._next_due.get(dataset, NEVER)

    def counts(self, dataset: str, at: int) -> ReservationCounts | None:
        """Return a dataset's open reservations by state in O(log n), None where it has none.

        Args:
            at: the time of the log, milliseconds since 1970.
        """
        deadlines = self._deadlines.get(dataset)
        return None if deadlines is None else deadlines.counts(at)

    def put(self, row: Reservation) -> None:
        """Replace a reservation."""
        rows = self._rows.setdefault(row.dataset, {})
        deadlines = self._deadlines.get(row.dataset)
        if deadlines is None:
            deadlines = self._deadlines[row.dataset] = DeadlineIndex()
        holders = self._holders.setdefault(row.dataset, Counter())
        before = rows.get(row.grant)
        if before is None:
            self.count += 1
        else:
            deadlines.remove(before)
            _take(holders, before)
        rows[row.grant] = row
        deadlines.add(row)
        holders.update(row.holders)
        self._next_due[row.dataset] = min(self.next_due(row.dataset), row.due)

    def remove(self, dataset: str, grant: str) -> None:
        """Drop a reservation, if it is there."""
        rows = self._rows.get(dataset, {})
        row = rows.pop(grant, None)
        if row is not None:
            self.count -= 1
            self._deadlines[dataset].remove(row)
            _take(self._holders[dataset], row)
        if not rows:
            self._rows.pop(dataset, None)
            self._deadlines.pop(dataset, None)
            self._holders.pop(dataset, None)
            self._next_due.pop(dataset, None)

    def set_next_due(self, dataset: str, at: int) -> None:
        """Set the time before which none of a dataset's reservations is final."""
        if dataset in self._rows:
            self._next_due[dataset] = at

    def __iter__(self) -> Iterator[Reservation]:
        """Yield every reservation, by dataset and grant."""
        for _, rows in sorted(self._rows.items()):
            for _, row in sorted(rows.items()):
                yield row

    def rows(self, known: Container[str] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Return each row for `state` as (key, value), but not of known keys."""
        return unknown_rows(
            self, lambda row: reservation_row_key(*row.key), lambda row: encode(row_of(row)), known
        )


def _take(holders: Counter[str], row: Reservation) -> None:
    """Take a reservation off its holders; a name without any has no place."""
    for name in row.holders:
        holders[name] -= 1
        if not holders[name]:
            del holders[name]


class ReservationChanges(RowChanges[Reservation]):
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_committed", "_moved", "_moved_since_mark", "_next_due")

    def __init__(self, table: ReservationTable) -> None:
        super().__init__(table)
        self._committed = table
        self._next_due: dict[str, int] = {}
        # By dataset and holder: how many more are open than in the table.
        self._moved: Counter[tuple[str, str]] = Counter()
        self._moved_since_mark: Counter[tuple[str, str]] = Counter()

    def open_of_holder(self, dataset: str, name: str) -> int:
        """Return how many open reservations of a dataset a name holds, as analyst or engine."""
        return self._committed.open_of_holder(dataset, name) + self._moved[dataset, name]

    def change(self, key: tuple[str, str], row: Reservation | None) -> None:
        """Replace a reservation; None drops it."""
        before = self.get(*key)
        for each, by in ((before, -1), (row, 1)):
            for name in () if each is None else each.holders:
                self._moved[key[0], name] += by
                self._moved_since_mark[key[0], name] += by
        super().change(key, row)

    def row_key(self, dataset: str, name: str) -> bytes:
        """Return the key of a reservation's row."""
        return reservation_row_key(dataset, name)

    def row_value(self, row: Reservation) -> bytes:
        """Return the bytes of a reservation's row."""
        return encode(row_of(row))

    def put(self, row: Reservation) -> None:
        """Replace a reservation."""
        self.change(row.key, row)
        self._next_due[row.dataset] = min(self._next(row.dataset), row.due)

    def remove(self, row: Reservation) -> None:
        """Drop a reservation."""
        self.change(row.key, None)

    def open(self, dataset: str, grant: str) -> Reservation | None:
        """Return an open reservation as it is now, None for any other grant."""
        found = self.get(dataset, grant)
        return found if found is not None and found.is_open else None

    def take_final(self, dataset: str, at: int, maximum: int) -> list[Reservation]:
        """Remove and return a dataset's first final reservations, in order of deadline.

        Args:
            at: the time of the log, milliseconds since 1970.
            maximum: how many to remove at most.
        """
        if at < self._next(dataset):
            return []
        rows = self._of(dataset)
        taken = first_final(rows, at, maximum)
        for row in taken:
            self.remove(row)
        gone = {row.grant for row in taken}
        self._next_due[dataset] = min(
            (row.due for row in rows if row.grant not in gone), default=NEVER
        )
        return taken

    def _next(self, dataset: str) -> int:
        found = self._next_due.get(dataset)
        return self._committed.next_due(dataset) if found is None else found

    def _of(self, dataset: str) -> list[Reservation]:
        rows = dict(self._committed.of(dataset))
        for grant, row in self.changed_of(dataset):
            if row is None:
                rows.pop(grant, None)
            else:
                rows[grant] = row
        return list(rows.values())

    def mark(self) -> None:
        """Begin what `undo` undoes."""
        self._moved_since_mark.clear()
        super().mark()

    def undo(self) -> None:
        """Go back to the last mark."""
        self._moved.subtract(self._moved_since_mark)
        self._moved_since_mark.clear()
        for (dataset, _), _, _ in self._undo:
            self._next_due[dataset] = 0  # unknown: the next decision looks at all of them
        super().undo()

    def absorb(self, sums: Checksum) -> None:
        """Make the changes the table's own, and their sums those of the rows written last."""
        super().absorb(sums)
        for dataset, at in self._next_due.items():
            self._committed.set_next_due(dataset, at)
