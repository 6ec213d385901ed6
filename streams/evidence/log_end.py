"""The end of a partition's log, as a checkpoint names it."""

from __future__ import annotations

from typing import NamedTuple

from accountant.partition import Partition


class LogEnd(NamedTuple):
    """The end of a log.

    Attributes:
        key: the key that the log names, None while it names none.
    """

    sequence: int
    head: str
    branch: int
    key: str | None

    @classmethod
    def of(cls, partition: Partition) -> LogEnd:
        """Return the end of a partition's log."""
        return cls(partition.sequence, partition.head, partition.branch, partition.key)
