"""What a log says of how often its clock was set back, which the partition's row alone holds."""

from __future__ import annotations

from typing import NamedTuple, Self

from accountant.partition import Partition
from accountant.records import Decision, PartitionRow
from accountant.records.outcomes import Outcome
from accountant.times import from_iso, iso


class SetBack(NamedTuple):
    """The resets among the decisions that were read.

    Attributes:
        times, at: how many, and to which time at last, in milliseconds.
        is_all: the log was read from its first decision on.
    """

    times: int = 0
    at: int = 0
    is_all: bool = False

    def after(self, decision: Decision) -> Self:
        """Return the same with the next decision."""
        found = self._replace(is_all=self.is_all or decision.partition_sequence == 0)
        if decision.outcome is not Outcome.CLOCK_RESET:
            return found
        return found._replace(times=self.times + 1, at=from_iso(decision.decided_at))


def miscounted_resets(partition: Partition, row: PartitionRow, read: SetBack) -> str | None:
    """Return how a partition's row contradicts the log or the levels, in words.

    By a row with other resets a pace that is used up might have room again.
    """
    count, at = row.resets or 0, row.reset_at or 0
    fits = count == read.times if read.is_all else count >= read.times
    if not fits or (at != read.at if read.times else at and not count):
        since = "" if read.is_all else ", or more before these"
        return (
            f"the partition's row says that the clock was set back {count} times, at last to "
            f"{iso(at)}; the decisions say {read.times} times{since}, at last to {iso(read.at)}"
        )
    levels = partition.levels.levels.values()
    paces = [level.paced.resets for level in levels if level.paced is not None]
    most = max(paces, default=0)
    if most > count:
        return (
            f"the partition's row says that the clock was set back {count} times, the row of a "
            f"level {most} times"
        )
    return None
