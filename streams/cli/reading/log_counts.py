"""What the log of a ledger's file holds of its datasets, counted as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from accountant.records.outcomes import Reason
from accountant.views.datasets import UNKNOWN
from streams.cli.reading.decoding import decoded

if TYPE_CHECKING:
    import apsw


class _Line(msgspec.Struct, frozen=True, gc=False):
    """The fields of a decision that are counted; names newer than this program are, too."""

    outcome: str
    decided_at: str
    dataset: str | None = None
    reason: str | None = None


_decode = msgspec.json.Decoder(_Line).decode
_ELSEWHERE: Final = Reason.WRONG_PARTITION.value


class Counts:
    """What the log holds of one dataset.

    Attributes:
        outcomes, reasons: how many decisions of each kind.
        last: number of the last of them, or `UNKNOWN`.
        last_at: the latest time that one was decided at, in ISO 8601; empty before the first.
    """

    __slots__ = ("last", "last_at", "outcomes", "reasons")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.last = UNKNOWN
        self.last_at = ""


class LogCounts:
    """Counts by dataset, brought up to date again and again.

    Args:
        only: the one dataset that will be asked for; without it, any may be.
    """

    def __init__(self, *, only: str | None = None) -> None:
        # Names hold nothing that JSON escapes, so a decision without these bytes is another's.
        self._within = b"" if only is None else only.encode()
        self._read = -1
        self._counts: dict[str, Counts] = {}

    def of(self, dataset: str) -> Counts:
        """Return what is counted of a dataset."""
        return self._counts.get(dataset) or Counts()

    def catch_up(self, db: apsw.Connection) -> None:
        """Take in the decisions since the last time.

        No statement lasts: outside a transaction, the writer's WAL goes back into the file
        meanwhile.

        Raises: LogDamaged: a decision cannot be read. Refused: as `numbered_decisions`.
        """
        from streams.embedded.ledger_file import numbered_decisions

        for sequence, value in numbered_decisions(db, first=self._read + 1):
            if self._within in value:
                self._count(sequence, value)
            self._read = sequence

    def _count(self, sequence: int, value: bytes) -> None:
        line = decoded(sequence, value, _decode)
        name, reason = line.dataset, line.reason
        if name is None or reason == _ELSEWHERE:
            return
        counts = self._counts.get(name)
        if counts is None:
            counts = self._counts[name] = Counts()
        counts.outcomes[line.outcome] = counts.outcomes.get(line.outcome, 0) + 1
        if reason is not None:
            counts.reasons[reason] = counts.reasons.get(reason, 0) + 1
        counts.last = sequence
        counts.last_at = max(counts.last_at, line.decided_at)
