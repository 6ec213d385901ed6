"""Finds the one record that a journal refuses to commit, so that it is decided as invalid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accountant.records.inputs import Input

_BATCHES_REFUSED: Final = 2
_MOST_IN_A_ROW: Final = 5


class Poison:
    """Remembers across replays which records the journal refused to commit.

    After two refusals the processor retries record by record. If a single record is refused, the
    processor decides it as `invalid`/`internal_error`. If the journal refuses that too, or no
    commit succeeds at all, the partition halts.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._refused = 0  # in a row
        self._singly = 0
        self._suspects: Sequence[Input] = ()
        self._poison: Input | None = None

    @property
    def batch(self) -> int:
        """Most records in the next batch."""
        return 1 if self._singly else self._batch

    def suspect(self, records: Sequence[Input]) -> None:
        """Remember the records that the processor is about to commit."""
        self._suspects = records

    def is_poison(self, record: Input) -> bool:
        """Tell whether this record was refused alone."""
        poison = self._poison
        # Compare the value too: a queue in memory may give another record the same offset.
        return (
            poison is not None
            and (record.source, record.offset) == (poison.source, poison.offset)
            and record.value == poison.value
        )

    def cleared(self, count: int) -> None:
        """Record that a commit of `count` records succeeded."""
        self._suspects = ()
        self._refused = 0
        self._singly = max(0, self._singly - count)
        if not self._singly:
            self._poison = None

    def absolve(self) -> None:
        """Record that a commit failed for a reason other than its records."""
        self._suspects = ()

    def blame(self) -> bool:
        """Record a refusal. Return True if the partition must halt."""
        suspects, self._suspects = self._suspects, ()
        self._refused += 1
        if self._singly and suspects:
            if self.is_poison(suspects[0]):
                return True
            self._poison = suspects[0]
        elif self._refused >= _BATCHES_REFUSED:
            self._singly = self._batch
        return self._refused >= _MOST_IN_A_ROW
