"""The decisions that one call waits for, woken once for all of them."""

from __future__ import annotations

import asyncio

from accountant.errors import BudgetError


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
