"""The periods of a period limit as a list of starts, computed one by one: slow and plain."""

from __future__ import annotations

DAY = 86_400_000


class Periods:
    """The starts of periods, over all lengths that a limit's period has had."""

    def __init__(self) -> None:
        self._length = 0
        self._marks: list[int] = []  # where period 0 begins and ends

    def say(self, period: str, at: int) -> None:
        """Apply a period's length, set at a time."""
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
        """The fields about the periods in a row of `state`."""
        first = (self._marks[1] - self._marks[0]) // DAY
        row: dict[str, object] = {"length": f"P{self._length // DAY}D", "first_at": self._marks[0]}
        return row if first * DAY == self._length else {**row, "first": f"P{first}D"}

    def around(self, at: int) -> tuple[int, int]:
        """Return the start and the end of the period of a time."""
        begin, end = self._marks
        while at < begin:
            begin, end = begin - self._length, begin
        while at >= end:
            begin, end = end, end + self._length
        return begin, end

    def number(self, at: int) -> int:
        """Return the number of the period of a time."""
        number, (begin, end) = 0, self._marks
        while at < begin:
            begin, number = begin - self._length, number - 1
        while at >= end:
            end, number = end + self._length, number + 1
        return number
