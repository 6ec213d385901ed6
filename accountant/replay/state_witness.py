"""Rows of `state` as witnesses of the log, also where a replay discards the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.records import PartitionRow

_RESTORE: Final = (
    "restore the log, then run `accountant audit`. If `state` belongs to another log, delete it"
)


class StateWitness:
    """The valid rows of a `state` that a replay discarded, as witnesses of the log.

    One transaction writes rows and decisions, so a log that ends before its rows has lost
    decisions. A replay of such a log would give back the budget that they spent.
    """

    def __init__(self, row: PartitionRow | None, ledgers: Mapping[str, DatasetLedger]) -> None:
        self._row = row
        self._ledgers = ledgers

    def check_head(self, number: int, digest: str) -> None:
        """Check that the log has the decision of the partition's row at the row's number.

        Raises: LogDamaged: the log has another decision there.
        """
        row = self._row
        if row is not None and number == row.partition_sequence and digest != row.head:
            raise LogDamaged(
                f"decision {number} of the log is {digest}, but `state` has {row.head} there: "
                f"{_RESTORE}"
            )

    def check(self, partition: Partition) -> None:
        """Check that the log, and each dataset in it, reaches as far as the rows.

        Raises: LogDamaged: decisions are missing.
        """
        if self._row is not None:
            check_reaches(partition.sequence, self._row.partition_sequence)
        for name, ledger in self._ledgers.items():
            now = partition.ledgers.get(name)
            if now is None or now.sequence < ledger.sequence:
                raise LogDamaged(
                    f"the log has {0 if now is None else now.sequence} decisions on dataset "
                    f"{name}, but `state` has {ledger.sequence}: {_RESTORE}"
                )


def check_reaches(end: int, last_in_rows: int) -> None:
    """Check that a log reaches the last decision that its rows include.

    Raises: LogDamaged: the log ends before it.
    """
    if end < last_in_rows:
        raise LogDamaged(
            f"the log ends at decision {end}, but `state` has decision {last_in_rows}: {_RESTORE}"
        )
