"""Find the one record that a journal will not take, and get past it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accountant.records.inputs import Input

_BATCHES_REFUSED: Final = 2
_MOST_IN_A_ROW: Final = 5


class Poison:
    """Remember across refolds which records the journal refused to commit.

    A batch that is refused twice is retried record by record; the one that is refused alone
    is decided `invalid`/`internal_error`; if even that is refused, or no commit succeeds at
    all, the partition halts.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._refused = 0  # in a row
        self._singly = 0
        self._suspects: Sequence[Input] = ()
        self._poison: Input | None = None

    @property
    def batch(self) -> int:
        """How many records to take next."""
        return 1 if self._singly else self._batch

    def suspect(self, records: Sequence[Input]) -> None:
        """Note the records that are about to be committed."""
        self._suspects = records

    def is_poison(self, record: Input) -> bool:
        """Tell whether this record was refused alone."""
        poison = self._poison
        # Compare the value too: an input without storage gives another record the same offset.
        return (
            poison is not None
            and (record.source, record.offset) == (poison.source, poison.offset)
            and record.value == poison.value
        )

    def cleared(self, count: int) -> None:
        """Note that a commit of so many records succeeded."""
        self._suspects = ()
        self._refused = 0
        self._singly = max(0, self._singly - count)
        if not self._singly:
            self._poison = None

    def absolve(self) -> None:
        """Note that a commit failed for a reason that no record has caused."""
        self._suspects = ()

    def blame(self) -> bool:
        """Note a refusal. Return True if there is nothing left to try."""
        suspects, self._suspects = self._suspects, ()
        self._refused += 1
        if self._singly and suspects:
            if self.is_poison(suspects[0]):
                return True
            self._poison = suspects[0]
        elif self._refused >= _BATCHES_REFUSED:
            self._singly = self._batch
        return self._refused >= _MOST_IN_A_ROW
