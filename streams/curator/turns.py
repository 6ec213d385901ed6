"""Places among the questions that run, given in turns: nobody's questions wait for all of another.

A turn is one question in one place. Senders take turns with one another: analysts who ask
themselves, and engines. An engine's analysts take turns within its own, and an analyst's datasets
within theirs: another name that an engine gives, or another dataset, is no further turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import TypeVar

_Turn = asyncio.Future[None]
_Name = TypeVar("_Name")
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
        self._senders = OrderedDict[
            tuple[str, bool], OrderedDict[str, OrderedDict[str, deque[_Turn]]]
        ]()
        """Who waits, by sender, analyst and dataset; whoever had a turn is the last one of each."""

    @contextlib.asynccontextmanager
    async def place(
        self, dataset: str, analyst: str, *, engine: str | None = None
    ) -> AsyncIterator[None]:
        """Wait for a turn of an analyst on a dataset, and hold a place for the block.

        Args:
            engine: what asks for the analyst; None where they ask themselves.
        Raises: Ended.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait(dataset, analyst, engine)
        try:
            yield
        finally:
            self._pass_on()

    def end(self, dataset: str, analyst: str | None) -> None:
        """End the wait of those who wait for a turn on a dataset: of an analyst, or of all."""
        for sender, analysts in [*self._senders.items()]:
            for name in [*analysts] if analyst is None else [analyst]:
                datasets = analysts.get(name, OrderedDict())
                for turn in datasets.pop(dataset, ()):
                    if not turn.cancelled():
                        turn.set_exception(Ended())
                if not datasets:
                    analysts.pop(name, None)
            if not analysts:
                del self._senders[sender]

    async def _wait(self, dataset: str, analyst: str, engine: str | None) -> None:
        turn: _Turn = asyncio.get_running_loop().create_future()
        # An engine may have an analyst's name.
        sender = (analyst, False) if engine is None else (engine, True)
        datasets = self._senders.setdefault(sender, OrderedDict()).setdefault(
            analyst, OrderedDict()
        )
        datasets.setdefault(dataset, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come at the same moment.
            if not turn.cancelled() and turn.exception() is None:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._senders:
            turn = self._next_turn()
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1

    def _next_turn(self) -> _Turn:
        sender, analysts = _rotate(self._senders)
        analyst, datasets = _rotate(analysts)
        dataset, turns = _rotate(datasets)
        turn = turns.popleft()
        if not turns:
            del datasets[dataset]
        if not datasets:
            del analysts[analyst]
        if not analysts:
            del self._senders[sender]
        return turn


def _rotate(queues: OrderedDict[_Name, _Queue]) -> tuple[_Name, _Queue]:
    """Return the first queue with its name, and make it the last one."""
    name, queue = next(iter(queues.items()))
    queues.move_to_end(name)
    return name, queue
