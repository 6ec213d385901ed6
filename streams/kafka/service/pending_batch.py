"""The decisions that one call waits for, woken once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping

from accountant.errors import BudgetError
from accountant.records import Source
from streams.kafka.service.follower.recent_decisions import InputPosition


class PendingInput:
    """A coroutine's wait for one input: for its append, then for its decision.

    One future for both saves a turn of the event loop. Belongs to one event loop.

    Args:
        wait: seconds to wait for the decision, once the input is appended.

    Attributes:
        future: gets the decision, None if the time is up before it.
        offset: None until the input is appended.
    """

    __slots__ = ("_position", "_timer", "future", "offset", "partition", "source", "wait")

    def __init__(self, partition: int, source: Source, wait: float) -> None:
        self.partition, self.source, self.wait = partition, source, wait
        self.future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self.offset: int | None = None
        self._position: InputPosition | None = None
        self._timer: asyncio.TimerHandle | None = None

    def at(self, offset: int) -> InputPosition:
        """Store the input's offset, and return its position."""
        self.offset = offset
        return self.partition, self.source, offset

    def begin(self, pending: MutableMapping[InputPosition, Waiting]) -> None:
        """Wait for the decision of the input, whose offset is known."""
        assert self.offset is not None
        self._position = self.partition, self.source, self.offset
        pending[self._position] = self.future
        # A timer of its own: `asyncio.timeout` costs more.
        self._timer = self.future.get_loop().call_later(self.wait, self._give_up)

    def _give_up(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def end(self, pending: MutableMapping[InputPosition, Waiting]) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._position is not None:
            pending.pop(self._position, None)


class PendingBatch:
    """A coroutine's wait for the decisions on many inputs. Belongs to one event loop.

    Attributes:
        found: for each input its decision, or the error in its place; None while it is undecided.
    """

    def __init__(self, count: int) -> None:
        self.found: list[bytes | BudgetError | None] = [None] * count
        self._missing = count
        self._is_complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self, seconds: float) -> None:
        """Return once every input is decided or failed, or the time is up."""
        if self._missing:
            await asyncio.wait([self._is_complete], timeout=seconds)

    def settle(self, index: int, found: bytes | BudgetError) -> None:
        """Store what became of one input; a second time changes nothing."""
        if self.found[index] is None:
            self.found[index] = found
            self._missing -= 1
            if not self._missing:
                self._is_complete.set_result(None)


class PendingPlace:
    """One input of a batch, to be settled as a future is."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Tell whether the input is settled."""
        return self._batch.found[self._index] is not None

    def set_result(self, decision: bytes) -> None:
        """Store the input's decision."""
        self._batch.settle(self._index, decision)

    def set_exception(self, error: BudgetError) -> None:
        """Store the error in place of the input's decision."""
        self._batch.settle(self._index, error)


Waiting = asyncio.Future[bytes | None] | PendingPlace
"""What gets an input's decision."""
