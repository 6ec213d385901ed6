"""An event loop whose time passes only when no task can run."""

from __future__ import annotations

import asyncio
import selectors


class _Skipping(selectors.SelectSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits for something that will never happen")
        self.skipped += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Run coroutines without waiting: a sleep of an hour takes no time, and runs repeat exactly.

    For coroutines that wait for timers and other tasks only, not for sockets or threads. Use it
    as `asyncio.Runner(loop_factory=VirtualTimeLoop)`.

    Raises: RuntimeError: every task waits, and no timer is set: a deadlock.
    """

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._skipping.skipped
