"""Reads the usage of a log from its index, for servers and metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from accountant.views.usage import By, UsageRow
from accountant.views.why import UsageSums
from streams.errors import Unavailable
from streams.index.cursor import SLICE
from streams.index.indexer import Indexer
from streams.index.rows import most_apart
from streams.log.decision_log import DecisionLog
from streams.settings import Settings
from streams.tasks.background import THREADS, Background

_WAIT_S: Final = 5.0  # of a reader; after a start the index may have a log to take in
_SCRAPE_WAIT_S: Final = 0.5
_SUFFIX: Final = ".index"


def index_path(ledger: Path, settings: Settings) -> Path:
    """Return the path of the index of a ledger's file."""
    beside = ledger.with_name(ledger.name + _SUFFIX)
    return beside if settings.index is None else settings.index.absolute()


class IndexState(NamedTuple):
    """How far an index lags, and what is wrong with it.

    Attributes:
        behind: decisions of the log that it has not taken in.
        trouble: what is wrong with it, in words; None while nothing is.
    """

    behind: int
    trouble: str | None


class UsageReader:
    """Keeps the index of a log up to date, and reads it. Any thread may call it.

    Args:
        log: read in a thread of its own; nobody else reads it.
        path, partitions, shared_log, limit, background: see `Indexer`.
    """

    def __init__(
        self,
        log: DecisionLog,
        path: Path | None,
        *,
        partitions: int = 1,
        shared_log: bool = False,
        limit: int = SLICE,
        background: Background = THREADS,
    ) -> None:
        self._follower = Indexer(
            log,
            path,
            partitions=partitions,
            shared_log=shared_log,
            limit=limit,
            background=background,
        )
        self.start = self._follower.start
        self.wake = self._follower.wake
        self.close = self._follower.close

    def rows(
        self,
        dataset: str,
        by: By,
        until_sequence: int,
        *,
        partition: int = 0,
        wait: float = _WAIT_S,
    ) -> list[UsageRow]:
        """Return who used a dataset, once the index has taken in decision `until_sequence`.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        apart = most_apart(by)
        return self._follower.read(
            {partition: until_sequence},
            lambda index: index.usage(dataset, by, limit=apart),
            wait=wait,
        )

    def sums(
        self,
        dataset: str,
        until_sequence: int,
        *,
        since_day: str,
        partition: int = 0,
        wait: float = _WAIT_S,
    ) -> UsageSums | None:
        """Return all that `why` is made of, once the index has taken in decision `until_sequence`.

        None of a dataset that was never opened.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        return self._follower.read(
            {partition: until_sequence},
            lambda index: index.sums(dataset, since_day=since_day),
            wait=wait,
        )

    def first_analysts(
        self, limit: int, until_sequences: Mapping[int, int]
    ) -> tuple[list[UsageRow], int] | None:
        """Return the first pairs of dataset and analyst, and how many requests others made.

        None while the index is behind: counters that fall to an earlier state would look reset.
        """
        try:
            return self._follower.read(
                self._all(until_sequences),
                lambda index: index.first_analysts(limit),
                wait=_SCRAPE_WAIT_S,
            )
        except Unavailable:
            return None

    def places(
        self,
        dataset: str,
        until_sequence: int,
        *,
        after: int,
        limit: int,
        since: int = 0,
        partition: int = 0,
        wait: float = _WAIT_S,
    ) -> list[tuple[int, int]]:
        """Return the numbers of a dataset's decisions: in the dataset, and in its partition.

        Args:
            after, limit, since: see `Rows.places`.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        return self._follower.read(
            {partition: until_sequence},
            lambda index: index.places(dataset, after=after, limit=limit, since=since),
            wait=wait,
        )

    def state(self, until_sequences: Mapping[int, int]) -> IndexState:
        """Return how far the index lags behind some decisions, after a short wait."""
        until_sequences = self._all(until_sequences)
        if self.trouble is None:
            with contextlib.suppress(Unavailable):
                self._follower.read(until_sequences, lambda _: None, wait=_SCRAPE_WAIT_S)
        reached = self.reached()
        behind = sum(
            max(0, until_sequence - reached[number])
            for number, until_sequence in until_sequences.items()
        )
        return IndexState(behind, self.trouble)

    def reached(self) -> Mapping[int, int]:
        """Return the number of the last decision in the index, by partition."""
        return {part.number: part.reached.sequence for part in self._follower.parts}

    def unread(self) -> list[int]:
        """Return the partitions whose log has not been read to its end since the start."""
        return [part.number for part in self._follower.parts if not part.whole]

    def _all(self, until_sequences: Mapping[int, int]) -> dict[int, int]:
        return {part.number: until_sequences.get(part.number, -1) for part in self._follower.parts}

    @property
    def trouble(self) -> str | None:
        """What is wrong with the index."""
        return self._follower.trouble
