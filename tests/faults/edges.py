"""Ids whose time lies around issue + window and around the skew, for every load."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

WINDOW_MS: Final = 3_600_000
SKEW_MS: Final = 300_000
SPREAD_MS: Final = 8_000
"""The time after a test's start during which such ids expire, or become due, one by one."""


FAR_MS: Final = 600_000
"""Some ids are so far from an edge that their decision does not depend on the moment."""


def edge_time(begun: int, number: int, window: int = WINDOW_MS, skew: int = SKEW_MS) -> int:
    """Return a time of issue at one of the two edges, the same for the same number.

    Most ids of it expire, or are no longer ahead, some time within `SPREAD_MS` of the begin.
    """
    chance = random.Random(number)
    soon = chance.randrange(SPREAD_MS), chance.randrange(SPREAD_MS)
    off = chance.choice([-1_000, 0, 1, *soon, -FAR_MS, FAR_MS])
    return begun + off + chance.choice([-window, -window, skew])


class Edges:
    """Bodies with such ids: new ones, and repeats of earlier ones.

    Args:
        make: from a time of issue to a body with a new id.
        begun: when the load begins, milliseconds since 1970.
    """

    def __init__(
        self,
        make: Callable[[int], bytes],
        begun: int,
        *,
        window: int = WINDOW_MS,
        skew: int = SKEW_MS,
    ) -> None:
        self._make = make
        self._begun = begun
        self._window, self._skew = window, skew
        self._chance = random.Random(begun)
        self._sent: list[bytes] = []
        self._number = 0

    def take(self, count: int) -> list[bytes]:
        """Return so many bodies, half of them sent before, once there are any."""
        return [self._one() for _ in range(count)]

    def _one(self) -> bytes:
        if self._sent and self._chance.random() < 0.5:
            return self._chance.choice(self._sent)
        self._number += 1
        at = edge_time(self._begun, self._number, self._window, self._skew)
        self._sent.append(self._make(at))
        return self._sent[-1]
