"""Find the one record that a journal will not take, and get past it."""

from __future__ import annotations

from collections.abc import Sequence

from accountant.inputs import Input

_REJECTIONS_BEFORE_SINGLE = 2


class Poison:
    """Remember across refolds what was being committed when the journal refused it.

    A batch that is refused twice is retried record by record; the one that is refused alone
    is decided `invalid`/`internal_error`; if even that is refused, there is no way on.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._rejections = 0
        self._singly = 0
        self._suspects: Sequence[Input] = ()
        self._poison: tuple[str, int] | None = None

    @property
    def batch(self) -> int:
        """How many records to take next."""
        return 1 if self._singly else self._batch

    def suspect(self, records: Sequence[Input]) -> None:
        """Note what is about to be committed."""
        self._suspects = records

    def is_poison(self, record: Input) -> bool:
        """Tell whether this record was refused alone."""
        return (record.source, record.offset) == self._poison

    def cleared(self, count: int) -> None:
        """Note that a commit of so many records succeeded."""
        self._suspects = ()
        self._singly = max(0, self._singly - count)
        if not self._singly:
            self._rejections, self._poison = 0, None

    def blame(self) -> bool:
        """Note a refusal. Return True if there is nothing left to try."""
        self._rejections += 1
        if self._singly and self._suspects:
            first = self._suspects[0]
            if self.is_poison(first):
                return True
            self._poison = first.source, first.offset
        elif self._rejections >= _REJECTIONS_BEFORE_SINGLE:
            self._singly = self._batch
        # Refused again and again with nothing to suspect: rows of a rewrite, say.
        return not self._suspects and self._rejections > _REJECTIONS_BEFORE_SINGLE
