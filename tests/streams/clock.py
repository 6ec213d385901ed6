"""A clock that tests move."""

from __future__ import annotations

NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z


class TestClock:
    """A clock that stands still until it is moved."""

    __test__ = False

    def __init__(self, now: int = NOON) -> None:
        self._now = now
        self._monotonic = 1000.0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def pass_(self, *, seconds: float) -> None:
        """Let time go by."""
        self._now += int(seconds * 1000)
        self._monotonic += seconds

    def jump(self, *, seconds: float) -> None:
        """Set the wall clock alone."""
        self._now += int(seconds * 1000)
