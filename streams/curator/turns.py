"""Places among the questions that run, given in turns: nobody's questions wait for all of another.

A turn is one question in one place. Analysts take turns with one another, and the datasets of an
analyst take turns within theirs: another dataset is no further turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import TypeVar

_Turn = asyncio.Future[None]
_Queue = TypeVar("_Queue")


class Ended(Exception):
    """A question was ended while it waited for its turn."""


class Turns:
    """Gives out places.

    Args:
        places: how many there are.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._analysts = OrderedDict[str, OrderedDict[str, deque[_Turn]]]()
        """Who waits, by analyst and dataset; whoever had a turn is the last one of each."""

    @contextlib.asynccontextmanager
    async def place(self, dataset: str, analyst: str) -> AsyncIterator[None]:
        """Wait for a turn of an analyst on a dataset, and hold a place for the block.

        Raises: Ended.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait(dataset, analyst)
        try:
            yield
        finally:
            self._pass_on()

    def end(self, dataset: str, analyst: str | None) -> None:
        """End the wait of those who wait for a turn on a dataset: of an analyst, or of all."""
        for name in [*self._analysts] if analyst is None else [analyst]:
            datasets = self._analysts.get(name, OrderedDict())
            for turn in datasets.pop(dataset, ()):
                if not turn.cancelled():
                    turn.set_exception(Ended())
            if not datasets:
                self._analysts.pop(name, None)

    async def _wait(self, dataset: str, analyst: str) -> None:
        turn: _Turn = asyncio.get_running_loop().create_future()
        datasets = self._analysts.setdefault(analyst, OrderedDict())
        datasets.setdefault(dataset, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come at the same moment.
            if not turn.cancelled() and turn.exception() is None:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._analysts:
            turn = self._next_turn()
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1

    def _next_turn(self) -> _Turn:
        analyst, datasets = _rotate(self._analysts)
        dataset, turns = _rotate(datasets)
        turn = turns.popleft()
        if not turns:
            del datasets[dataset]
        if not datasets:
            del self._analysts[analyst]
        return turn


def _rotate(queues: OrderedDict[str, _Queue]) -> tuple[str, _Queue]:
    """Return the first queue with its name, and make it the last one."""
    name, queue = next(iter(queues.items()))
    queues.move_to_end(name)
    return name, queue
