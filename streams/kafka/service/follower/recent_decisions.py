"""Recent decisions by the position of their input, and by their request."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from accountant.partition.ids import identities_in
from accountant.records import Decision
from accountant.records.header import DecisionHeader
from accountant.times import issued_at
from streams.clock import Clock

_MAX_RECENT: Final = 20_000
_MAX_INDEXED: Final = 200_000
InputPosition = tuple[int, str, int]
"""Partition, input, offset."""


class RecentDecisions:
    """Recent decisions by their input's position, and final ones by request, within the window."""

    def __init__(self, clock: Clock, window_ms: int) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self.by_position: OrderedDict[InputPosition, bytes] = OrderedDict()
        self.by_request: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()

    def add(self, position: InputPosition, line: Decision | DecisionHeader, value: bytes) -> None:
        self.by_position[position] = value
        if line.outcome.is_numbered:
            for identity in identities_in(line):
                self.by_request[identity] = value

    def forget_old(self) -> None:
        """Drop requests older than the window; the log still has them."""
        while len(self.by_position) > _MAX_RECENT:
            self.by_position.popitem(last=False)
        oldest = self._clock.now() - self._window_ms
        while self.by_request:
            key = next(iter(self.by_request))
            recent = (issued_at(key[2]) or 0) >= oldest
            if recent and len(self.by_request) <= _MAX_INDEXED:
                return
            del self.by_request[key]
