"""The interfaces of a processor: observers to notify, and the right to own its partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from accountant.partition import Partition
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from streams.errors import Fenced


class Committed(NamedTuple):
    """The decisions that one commit made visible.

    Attributes:
        partition: the state after it; observers read it and must not keep it.
        records: the inputs and their decisions, in order.
        seconds: how long the commit took.
    """

    partition: Partition
    records: Sequence[tuple[Input, EncodedDecision]]
    seconds: float


class Observer(Protocol):
    """Receives the events of a partition. Calls must return at once and not raise."""

    def replayed(self, partition: Partition, seconds: float) -> None:
        """The processor has replayed the state; it is valid until `dropped`."""

    def committed(self, committed: Committed) -> None:
        """The decisions of a commit are visible."""

    def dropped(self, partition: int, error: BaseException | None) -> None:
        """The state is no longer valid, until the next `replayed` if there is one."""

    def halted(self, partition: int, error: BaseException) -> None:
        """The processor decides nothing more until an operator acts."""


class Entitlement(Protocol):
    """Decides whether a processor may own its partition (again)."""

    async def may_own(self, fault: BaseException | None) -> bool:
        """Return True once the processor may own it, or False if it never may again.

        Args:
            fault: why the processor lost the partition, None the first time.
        """
        ...

    def holds(self) -> bool:
        """Tell whether it may still own it. The processor asks before each read and commit."""
        ...


class AlwaysEntitled:
    """The entitlement for a journal that only one process can open."""

    async def may_own(self, fault: BaseException | None) -> bool:
        return not isinstance(fault, Fenced)

    def holds(self) -> bool:
        return True


class Observers:
    """Forwards each event to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def replayed(self, partition: Partition, seconds: float) -> None:
        for observer in self._observers:
            observer.replayed(partition, seconds)

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
    """The number of records of one input that wait for a decision."""

    topic: str
    partition: int
    records: int
