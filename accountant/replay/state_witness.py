"""What rows of `state` prove of the log beside them, also rows that are given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accountant.errors import LogDamaged
from accountant.ledger import Ledger
from accountant.partition import Partition
from accountant.records import PartitionRow

_RESTORE: Final = (
    "restore the log, then run `accountant audit`; if state is of another log, delete it"
)


class StateWitness:
    """What the sound rows of a `state` that is given up prove of the log.

    Rows and decisions are written in one transaction, so a log that holds less has lost
    decisions. To refold it all the same would give back what they spent.
    """

    def __init__(self, row: PartitionRow | None, ledgers: Mapping[str, Ledger]) -> None:
        self._row = row
        self._ledgers = ledgers

    def check_head(self, number: int, digest: str) -> None:
        """Check a decision of the log against the last one that the partition's row has seen.

        Raises: LogDamaged: it is another.
        """
        row = self._row
        if row is not None and number == row.partition_sequence and digest != row.head:
            raise LogDamaged(
                f"decision {number} of the log is {digest}, but state has seen {row.head} there: "
                f"{_RESTORE}"
            )

    def check(self, partition: Partition) -> None:
        """Check the end of the log, and of each dataset.

        Raises: LogDamaged: decisions are missing.
        """
        if self._row is not None:
            check_reaches(partition.sequence, self._row.partition_sequence)
        for name, ledger in self._ledgers.items():
            now = partition.ledgers.get(name)
            if now is None or now.sequence < ledger.sequence:
                raise LogDamaged(
                    f"the log holds {0 if now is None else now.sequence} decisions on dataset "
                    f"{name}, but state has seen {ledger.sequence}: {_RESTORE}"
                )


def check_reaches(end: int, seen: int) -> None:
    """Check that a log reaches as far as rows have seen it.

    Raises: LogDamaged: it ends before.
    """
    if end < seen:
        raise LogDamaged(
            f"the log ends at decision {end}, but state has seen decision {seen}: {_RESTORE}"
        )
