"""The deadlines of a dataset's open reservations, in order: counts without a walk over the rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final, NamedTuple, get_args

from accountant.records.reservation_rows import Stage
from accountant.reservations.reservation import Reservation

_LAST_PART: Final = 10
"""A reservation expires soon in the last tenth of its time, however long that is."""


class ReservationCounts(NamedTuple):
    """A dataset's open reservations at a time of the log.

    Attributes:
        reserved, begun: those before their deadline.
        lapsed: those that did not begin before their deadline, and can still be voided.
        broken: those that released beyond their maximum.
        final: those that nothing changes any more; the dataset's next decisions drop them.
        reserved_expiring, begun_expiring: those of `reserved` and `begun` in the last tenth of
            their time.
        begin_until, settle_until: the first deadline of `reserved` and of `begun`, milliseconds
            since 1970; None for none.
    """

    reserved: int
    begun: int
    lapsed: int
    broken: int
    final: int
    reserved_expiring: int
    begun_expiring: int
    begin_until: int | None
    settle_until: int | None


class _StageCounts(NamedTuple):
    before: int
    expiring: int
    lapsed: int
    final: int
    until: int | None


class _StageTimes:
    """The times of the reservations of one stage, each kind of time in a sorted list."""

    __slots__ = ("_deadlines", "_dues", "_expiring")

    def __init__(self) -> None:
        self._expiring: list[int] = []
        self._deadlines: list[int] = []
        self._dues: list[int] = []

    def add(self, row: Reservation) -> None:
        insort(self._expiring, _expires_soon_at(row))
        insort(self._deadlines, row.deadline)
        insort(self._dues, row.due)

    def remove(self, row: Reservation) -> None:
        _remove(self._expiring, _expires_soon_at(row))
        _remove(self._deadlines, row.deadline)
        _remove(self._dues, row.due)

    def __len__(self) -> int:
        return len(self._deadlines)

    def counts(self, at: int) -> _StageCounts:
        passed, final = bisect_right(self._deadlines, at), bisect_right(self._dues, at)
        next_one = self._deadlines[passed : passed + 1]
        return _StageCounts(
            len(self._deadlines) - passed,
            bisect_right(self._expiring, at) - passed,
            passed - final,
            final,
            next_one[0] if next_one else None,
        )


class DeadlineIndex:
    """The times of a dataset's open reservations. A change and a count are O(log n) comparisons."""

    __slots__ = ("_stages",)

    def __init__(self) -> None:
        self._stages: dict[Stage, _StageTimes] = {each: _StageTimes() for each in get_args(Stage)}

    def add(self, row: Reservation) -> None:
        """Add a reservation."""
        self._stages[row.stage].add(row)

    def remove(self, row: Reservation) -> None:
        """Remove a reservation that was added, in the stage that it had."""
        self._stages[row.stage].remove(row)

    def counts(self, at: int) -> ReservationCounts:
        """Return the counts at a time of the log, milliseconds since 1970."""
        reserved, begun = (self._stages[each].counts(at) for each in ("reserved", "begun"))
        return ReservationCounts(
            reserved=reserved.before,
            begun=begun.before,
            lapsed=reserved.lapsed,
            broken=len(self._stages["broken"]),
            final=reserved.final + begun.final,
            reserved_expiring=reserved.expiring,
            begun_expiring=begun.expiring,
            begin_until=reserved.until,
            settle_until=begun.until,
        )


def _expires_soon_at(row: Reservation) -> int:
    return row.deadline - (row.deadline - row.reserved_at) // _LAST_PART


def _remove(times: list[int], at: int) -> None:
    place = bisect_left(times, at)
    assert times[place] == at
    del times[place]
