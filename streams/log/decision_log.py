"""The port to a ledger's decision log: in its file, on Kafka, or in exported lines.

One contract suite tests the three backends. A backend translates its library's errors into
`streams.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from accountant.records.operator_records import Seal
    from accountant.replay.sealed_log import SealSnapshot
    from accountant.replay.state_comparison import StateRows

MAX_PAGE_BYTES: Final = 4 << 20
"""Maximum size of a page of decisions: one record may be as long as the longest body."""

MAX_LINE: Final = 4 << 20
"""Longest line of an exported log, far above any decision."""


class Part(NamedTuple):
    """One partition of a log.

    Attributes:
        number: of the partition.
        values: the bytes of its decisions; read them before the next part.
        total: the number of decisions, if it is known.
        head: number and hash of the last decision according to `state`, if it is known.
        sealed: the seal, if decisions are in an archive that --archive does not name.
        archived: number and hash of the last archived decision, according to the seal.
        state: the rows of `state`, None if there are none. The log contains the decision that
            they end at, and perhaps later ones.
        gapless: whether the inputs' offsets have no gaps, as in a ledger's file.
        first: number of the first value, None if it is not known.
        ordered: whether `decided_at` never falls: the clock was never reset. False if unknown.
        newest_first: yields the same values from the end; None if only `values` can be read.
    """

    number: int
    values: Iterator[bytes]
    total: int | None = None
    head: tuple[int, str] | None = None
    sealed: SealSnapshot | None = None
    archived: tuple[int, str] | None = None
    state: StateRows | None = None
    gapless: bool = False
    first: int | None = 0
    ordered: bool = False
    newest_first: Callable[[], Iterator[bytes]] | None = None

    def numbers(self) -> Iterator[int]:
        """Yield the expected number of each value; `first` must be known."""
        if self.sealed is not None and self.archived is not None:
            return chain([0], count(self.archived[0] + 1))
        assert self.first is not None
        return count(self.first)


class PartSize(NamedTuple):
    """How long a partition of a log is, about.

    Attributes:
        number: of the partition.
        records: how many decisions it has, or a few more.
    """

    number: int
    records: int


class DecisionLog(Protocol):
    """A log of one or more partitions, which may grow while it is read.

    One thread at a time calls it. Nothing is opened before the first read.

    Raises of every method: Unavailable, Refused: the log cannot be read now, or not at all.
    """

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        """Return decisions from number `first` on, fewer than `limit` only where the log ends.

        Raises:
            Gone: the first of them was archived; its `first` names the next one to read.
            LogDamaged: the log has a later decision and not this one.
        """
        ...

    def last(self, partition: int) -> tuple[int, bytes]:
        """Return the last decision, with its number.

        Raises: Unavailable: there is none yet. LogDamaged.
        """
        ...

    def seal(self, partition: int) -> tuple[SealSnapshot, Seal] | None:
        """Return the snapshot in place of archived decisions, and its seal; None without archives.

        Raises: LogDamaged: one of them is missing, or cannot be read.
        """
        ...

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        """Yield each partition, up to the end that it has at that moment.

        Args:
            since: a time in milliseconds since 1970. A log with an index by time may leave out
                decisions before the first one made at or after it.
            only: yield only the partition at this place in the log.
        Raises: LogDamaged. InputInvalid: the log has no archives.
        """
        ...

    def sizes(self) -> list[PartSize]:
        """Return the size of each partition, in order.

        Nothing of a log with only one, if measuring it would mean reading it.
        """
        ...

    def forget(self, partition: int) -> None:
        """Drop what is known of a partition; the next read looks for it again."""
        ...

    def close(self) -> None:
        """Disconnect; another read connects again."""
        ...
