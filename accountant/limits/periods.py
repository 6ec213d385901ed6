"""The periods of a period limit: fixed stretches of time, one after the other."""

from __future__ import annotations

from typing import NamedTuple, Self


class Periods(NamedTuple):
    """Periods of one length, but for the first.

    Attributes:
        length: of each, in milliseconds.
        first_at: when period 0 begins, in milliseconds since 1970.
        first: how long period 0 is: longer than the others where it ran when the length changed.
    """

    length: int
    first_at: int
    first: int

    def number(self, at: int) -> int:
        """Return the number of the period that a time lies in."""
        since = at - self.first_at
        if since < 0:
            return since // self.length
        return 0 if since < self.first else 1 + (since - self.first) // self.length

    def begin(self, number: int) -> int:
        """Return when a period begins, in milliseconds since 1970."""
        if number <= 0:
            return self.first_at + number * self.length
        return self.first_at + self.first + (number - 1) * self.length

    def end(self, number: int) -> int:
        """Return when a period ends, in milliseconds since 1970."""
        return self.begin(number + 1)

    def with_length(self, length: int, at: int) -> Self:
        """Return the periods after a change of their length.

        The running period keeps its beginning, and ends when the longer of the two lengths does.
        So every period of either length that overlaps it lies within it, or begins after it: what
        the period limit admits in the running period bounds what it admits in each of them.
        """
        if length == self.length:
            return self
        running = self.number(at)
        begin = self.begin(running)
        return self._replace(
            length=length, first_at=begin, first=max(self.end(running) - begin, length)
        )
