"""The lease of a partition: it prevents two workers from fencing each other in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from streams.clock import steady
from streams.errors import Fenced

_FENCED_S: Final = 15.0


class _Fencing(NamedTuple):
    """The generation in which an owner was fenced, and until when (monotonic) it waits."""

    generation: int
    until: float


class Lease:
    """Whether this worker may (still) own one partition.

    A fenced owner may only come back in a new generation of the group, or after a while:
    two workers that both insist would fence each other for ever.

    Args:
        generation: returns the group's generation, as the worker knows it.
        after: the last lease of the partition: a worker fenced under that one still waits.

    Attributes:
        revoked: set once the group revoked the partition; this lease then never owns it again.
    """

    def __init__(self, generation: Callable[[], int], *, after: Lease | None = None) -> None:
        self.revoked = False
        self._generation = generation
        self._fenced: _Fencing | None = None if after is None else after._fenced

    async def may_own(self, fault: BaseException | None) -> bool:
        if isinstance(fault, Fenced):
            self._fenced = _Fencing(self._generation(), steady() + _FENCED_S)
        while not self.revoked and self._fenced is not None:
            generation, until = self._fenced
            if self._generation() != generation or steady() >= until:
                self._fenced = None
            else:
                await asyncio.sleep(0.1)
        return not self.revoked

    def holds(self) -> bool:
        return not self.revoked
