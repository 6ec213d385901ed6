"""The periods of a pace as a list of beginnings, drawn up one by one: slow and plain."""

from __future__ import annotations

DAY = 86_400_000


class Periods:
    """When periods begin, by all lengths that a limit's pace has had."""

    def __init__(self) -> None:
        self._length = 0
        self._marks: list[int] = []  # where period 0 begins and ends

    def say(self, period: str, at: int) -> None:
        """Take a pace's period, set at a time."""
        length = int(period[1:-1]) * DAY
        if not self._length:
            self._marks = [at, at + length]
        elif length != self._length:
            begin, end = self.around(at)
            self._marks = [begin, max(end, begin + length)]
        self._length = length

    @property
    def are_known(self) -> bool:
        return self._length > 0

    @property
    def row(self) -> dict[str, object]:
        """What a row of `state` tells of them."""
        first = (self._marks[1] - self._marks[0]) // DAY
        row: dict[str, object] = {"length": f"P{self._length // DAY}D", "first_at": self._marks[0]}
        return row if first * DAY == self._length else {**row, "first": f"P{first}D"}

    def around(self, at: int) -> tuple[int, int]:
        """Return when the period begins that a time lies in, and when it ends."""
        begin, end = self._marks
        while at < begin:
            begin, end = begin - self._length, begin
        while at >= end:
            begin, end = end, end + self._length
        return begin, end

    def number(self, at: int) -> int:
        """Return the number of the period that a time lies in."""
        number, (begin, end) = 0, self._marks
        while at < begin:
            begin, number = begin - self._length, number - 1
        while at >= end:
            end, number = end + self._length, number + 1
        return number
