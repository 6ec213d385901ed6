"""The usage before the seal of an archived log."""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.errors import LogDamaged
from accountant.replay.sealed_log import hash_of_lines, parse_usage, partition_row
from accountant.views.tallies import DecisionTally, add_archived
from streams.log.decision_log import DecisionLog

_PAGE: Final = 1_000  # decisions read at a time


class IndexPosition(NamedTuple):
    """The last decision of a partition in an index.

    Attributes:
        sequence, head: its number and its hash.
        log: hash of the partition's decision 0.
    """

    sequence: int
    head: str
    log: str


class Beginning(NamedTuple):
    """The usage before the seal of an archived log.

    Attributes:
        counted: the usage in it.
        reached: the last decision that is counted.
    """

    counted: DecisionTally
    reached: IndexPosition


def beginning_of(log: DecisionLog, partition: int) -> Beginning | None:
    """Return what an index begins with, None if nothing of the log was archived.

    Raises: LogDamaged: the snapshot is another one than the log's seal names.
    """
    found = log.seal(partition)
    if found is None:
        return None
    sealed, seal = found
    if seal.usage != hash_of_lines(sealed.usage):
        raise LogDamaged("the seal names other usage than its snapshot has")
    counted, row = parse_usage(sealed.usage), partition_row(sealed)
    last, behind = row.partition_sequence, dict[str, tuple[int, str]]()
    for first in range(seal.archived + 1, last + 1, _PAGE):
        for value in log.read(partition, first, min(_PAGE, last + 1 - first)):
            add_archived(counted, value)
    # Of a dataset without a decision among those, the finer rows begin behind its last one.
    for (dataset, _), tally in counted.days.items():
        begin = tally.sequence + 1, tally.decided_at
        behind[dataset] = max(begin, behind.get(dataset, begin))
    counted.since = behind | counted.since
    return Beginning(counted, IndexPosition(last, row.head, seal.first))
