"""Whether a worker may own a partition: the rule that keeps two of them from a duel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from streams.errors import Fenced

_FENCED_S: Final = 15.0


class Lease:
    """Whether this worker may (still) own one partition.

    A fenced owner may only come back in a new generation of the group, or after a while:
    two workers that both insist would fence each other for ever.

    Args:
        generation: returns the group's generation, as the worker knows it.

    Attributes:
        revoked: set once the partition was taken away; it is never owned again under this lease.
    """

    def __init__(self, generation: Callable[[], int]) -> None:
        self.revoked = False
        self._generation = generation

    async def may_own(self, fault: BaseException | None) -> bool:
        if isinstance(fault, Fenced):
            generation = self._generation()
            deadline = time.monotonic() + _FENCED_S
            while not self.revoked and time.monotonic() < deadline:
                if self._generation() != generation:
                    break
                await asyncio.sleep(0.1)
        return not self.revoked

    def holds(self) -> bool:
        return not self.revoked
