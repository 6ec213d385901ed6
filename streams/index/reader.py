"""Usage of one partition's log as doors and metrics read it: from an index kept behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from streams.errors import Unavailable
from streams.index.census import By, UsageRow
from streams.index.follower import Follower
from streams.index.rows import most_apart
from streams.index.usage_index import Log
from streams.settings import Settings

_WAIT_S: Final = 5.0  # of a reader; after a start the index may have a log to take in
_SCRAPE_WAIT_S: Final = 0.5
_SUFFIX: Final = ".index"


def index_path(ledger: Path, settings: Settings) -> Path:
    """Return where the index of a ledger's file is."""
    beside = ledger.with_name(ledger.name + _SUFFIX)
    return beside if settings.index is None else settings.index.absolute()


class IndexState(NamedTuple):
    """How an index stands.

    Attributes:
        behind: decisions of the log that it has not taken in.
        trouble: what is wrong with it, in words; None while nothing is.
    """

    behind: int
    trouble: str | None


class UsageReader:
    """Keeps the index of one partition, and reads it. Any thread may call it.

    Args:
        open_log: called in a thread of its own.
        path: of the index.
    """

    def __init__(self, open_log: Callable[[], Log], path: Path) -> None:
        self._follower = Follower(open_log, path)
        self.wake = self._follower.wake
        self.close = self._follower.close

    def rows(self, dataset: str, by: By, upto: int) -> list[UsageRow]:
        """Return who used a dataset, once the index has taken in decision `upto`.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        apart = most_apart(by)
        return self._follower.read(
            upto, lambda index: index.usage(dataset, by, most=apart), wait=_WAIT_S
        )

    def first_analysts(self, most: int, upto: int) -> tuple[list[UsageRow], int] | None:
        """Return the first pairs of dataset and analyst, and how many requests others made.

        None while the index is behind: counters that fall to an earlier state would look reset.
        """
        try:
            return self._follower.read(
                upto, lambda index: index.first_analysts(most), wait=_SCRAPE_WAIT_S
            )
        except Unavailable:
            return None

    def places(self, dataset: str, upto: int, *, after: int, most: int) -> list[tuple[int, int]]:
        """Return the numbers of a dataset's decisions: in the dataset, and in its partition.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        return self._follower.read(
            upto, lambda index: index.places(dataset, after=after, most=most), wait=_WAIT_S
        )

    def state(self, upto: int) -> IndexState:
        """Tell how far the index is behind decision `upto`, after giving it a moment."""
        if self._follower.trouble is None:
            with contextlib.suppress(Unavailable):
                self._follower.read(upto, lambda _: None, wait=_SCRAPE_WAIT_S)
        return IndexState(max(0, upto - self._follower.reached.sequence), self._follower.trouble)

    @property
    def trouble(self) -> str | None:
        """What is wrong with the index, in words."""
        return self._follower.trouble
