"""Retries of a call: its deadline, and the growing pauses between attempts."""

from __future__ import annotations

import random
from typing import Final

from streams.clock import steady

_FIRST_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 2.0
CONNECT_S: Final = 10.0
"""Default wait for a connection, in seconds."""
WAIT_S: Final = 5.0
"""Default wait for a decision, in seconds."""
BATCH_WAIT_S: Final = 60.0
"""Default wait for the decisions on a thousand requests, in seconds."""
GRACE_S: Final = 1.5
"""Extra seconds after the wait for an attempt that is already running."""


class Deadline:
    """The time limit of a call with all its retries."""

    def __init__(self, wait: float) -> None:
        self._until = steady() + wait
        self._next_pause = _FIRST_PAUSE_S

    @property
    def remaining(self) -> float:
        """Remaining seconds, at least 0."""
        return max(0.0, self._until - steady())

    def pause(self, at_least: float = 0.0) -> float | None:
        """Return the pause before the next attempt, None if the deadline comes first.

        Pauses grow, with jitter.

        Args:
            at_least: seconds that the server asks to wait (`Retry-After`).
        """
        pause = at_least + self._next_pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, hides nothing
        self._next_pause = min(2 * self._next_pause, _MAX_PAUSE_S)
        return None if pause >= self.remaining else pause
