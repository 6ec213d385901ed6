"""What a processor tells of its partition and asks before it owns it; those who listen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from accountant.partition import Partition
from accountant.records.decided import Encoded
from accountant.records.inputs import Input
from streams.errors import Fenced


class Committed(NamedTuple):
    """What one commit made visible.

    Attributes:
        partition: the state after it; to be read, never kept.
        records: the inputs and their decisions, in order.
        seconds: how long the commit took.
    """

    partition: Partition
    records: Sequence[tuple[Input, Encoded]]
    seconds: float


class Observer(Protocol):
    """Who is told what becomes of a partition. Calls must return at once and not raise."""

    def refolded(self, partition: Partition, seconds: float) -> None:
        """The state was read back; it holds until `dropped`."""

    def committed(self, committed: Committed) -> None:
        """Decisions became visible."""

    def dropped(self, partition: int, error: BaseException | None) -> None:
        """The state is no longer valid, for a while or for ever."""

    def halted(self, partition: int, error: BaseException) -> None:
        """Nothing more will be decided here until an operator acts."""


class Entitlement(Protocol):
    """Whether a processor may own its partition (again)."""

    async def may_own(self, fault: BaseException | None) -> bool:
        """Return once it may, or False if it never may again.

        Args:
            fault: why it lost the partition, None the first time.
        """
        ...

    def holds(self) -> bool:
        """Tell whether it still may. Asked before each read and each commit."""
        ...


class AlwaysEntitled:
    """For a journal that only one process can open."""

    async def may_own(self, fault: BaseException | None) -> bool:
        return not isinstance(fault, Fenced)

    def holds(self) -> bool:
        return True


class Observers:
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def refolded(self, partition: Partition, seconds: float) -> None:
        for observer in self._observers:
            observer.refolded(partition, seconds)

    def committed(self, committed: Committed) -> None:
        for observer in self._observers:
            observer.committed(committed)

    def dropped(self, partition: int, error: BaseException | None) -> None:
        for observer in self._observers:
            observer.dropped(partition, error)

    def halted(self, partition: int, error: BaseException) -> None:
        for observer in self._observers:
            observer.halted(partition, error)


@dataclass(frozen=True, slots=True)
class Lag:
    """How many records of one input wait to be decided."""

    topic: str
    partition: int
    records: int
