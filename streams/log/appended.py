"""Decisions that have become visible, as a ledger announces them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Appended:
    """Decisions of one partition that have become visible, in the order of the log.

    Attributes:
        first: number of the first of them; of none, that of the next decision.
        values: the decisions as in the log.
    """

    partition: int
    first: int
    values: Sequence[bytes]


class Appending(Protocol):
    """An iterator over decisions as they become visible, until it is closed."""

    def __aiter__(self) -> AsyncIterator[Appended]: ...

    async def __anext__(self) -> Appended: ...

    def close(self) -> None:
        """Stop, awaiting nothing."""
        ...
