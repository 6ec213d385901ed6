"""How long a call retries a ledger that does not answer, and how long it pauses in between."""

from __future__ import annotations

import random
from typing import Final

from streams.clock import steady

_FIRST_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 2.0
CONNECT_S: Final = 10.0
"""How long a client waits for a connection where nothing else is said, in seconds."""
WAIT_S: Final = 5.0
"""How long a call waits for its decision where it does not say so, in seconds."""
GRACE_S: Final = 1.5
"""How long after its wait a call may still take, for what is under way then."""


class Deadline:
    """The time that a call may still take, with all its retries."""

    def __init__(self, wait: float) -> None:
        self._until = steady() + wait
        self._next_pause = _FIRST_PAUSE_S

    @property
    def remaining(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._until - steady())

    def pause(self, at_least: float = 0.0) -> float | None:
        """Return how long to pause before the next attempt, None if there is to be none.

        The pauses grow, with jitter.

        Args:
            least: seconds that the door has asked to wait.
        """
        pause = at_least + self._next_pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, hides nothing
        self._next_pause = min(2 * self._next_pause, _MAX_PAUSE_S)
        return None if pause >= self.remaining else pause
