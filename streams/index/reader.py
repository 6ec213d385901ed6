"""Usage of a log as doors and metrics read it: from an index kept behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from accountant.views.usage import By, UsageRow
from accountant.views.why import UsageSums
from streams.background import THREADS, Background
from streams.errors import Unavailable
from streams.index.followed import SLICE
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
    """Keeps the index of a log, and reads it. Any thread may call it.

    Args:
        open_log: called with a partition's number in a thread of its own.
        path, partitions, shared_log, most, background: see `Follower`.
    """

    def __init__(
        self,
        open_log: Callable[[int], Log],
        path: Path | None,
        *,
        partitions: int = 1,
        shared_log: bool = False,
        most: int = SLICE,
        background: Background = THREADS,
    ) -> None:
        self._follower = Follower(
            open_log,
            path,
            partitions=partitions,
            shared_log=shared_log,
            most=most,
            background=background,
        )
        self.start = self._follower.start
        self.wake = self._follower.wake
        self.close = self._follower.close

    def rows(
        self, dataset: str, by: By, upto: int, *, partition: int = 0, wait: float = _WAIT_S
    ) -> list[UsageRow]:
        """Return who used a dataset, once the index has taken in decision `upto`.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        apart = most_apart(by)
        return self._follower.read(
            {partition: upto}, lambda index: index.usage(dataset, by, most=apart), wait=wait
        )

    def sums(
        self,
        dataset: str,
        upto: int,
        *,
        since_day: str,
        partition: int = 0,
        wait: float = _WAIT_S,
    ) -> UsageSums | None:
        """Return all that `why` is made of, once the index has taken in decision `upto`.

        None of a dataset that was never opened.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        return self._follower.read(
            {partition: upto}, lambda index: index.sums(dataset, since_day=since_day), wait=wait
        )

    def first_analysts(
        self, most: int, uptos: Mapping[int, int]
    ) -> tuple[list[UsageRow], int] | None:
        """Return the first pairs of dataset and analyst, and how many requests others made.

        None while the index is behind: counters that fall to an earlier state would look reset.
        """
        try:
            return self._follower.read(
                self._all(uptos), lambda index: index.first_analysts(most), wait=_SCRAPE_WAIT_S
            )
        except Unavailable:
            return None

    def places(
        self,
        dataset: str,
        upto: int,
        *,
        after: int,
        most: int,
        since: int = 0,
        partition: int = 0,
        wait: float = _WAIT_S,
    ) -> list[tuple[int, int]]:
        """Return the numbers of a dataset's decisions: in the dataset, and in its partition.

        Args:
            after, most, since: see `Rows.places`.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        return self._follower.read(
            {partition: upto},
            lambda index: index.places(dataset, after=after, most=most, since=since),
            wait=wait,
        )

    def state(self, uptos: Mapping[int, int]) -> IndexState:
        """Tell how far the index is behind some decisions, after giving it a moment."""
        uptos = self._all(uptos)
        if self.trouble is None:
            with contextlib.suppress(Unavailable):
                self._follower.read(uptos, lambda _: None, wait=_SCRAPE_WAIT_S)
        reached = self.reached()
        behind = sum(max(0, upto - reached[number]) for number, upto in uptos.items())
        return IndexState(behind, self.trouble)

    def reached(self) -> Mapping[int, int]:
        """Return the number of the last decision taken in, by partition."""
        return {part.number: part.reached.sequence for part in self._follower.parts}

    def unread(self) -> list[int]:
        """Return the partitions whose log's end was not reached yet since this process began."""
        return [part.number for part in self._follower.parts if not part.whole]

    def _all(self, uptos: Mapping[int, int]) -> dict[int, int]:
        return {part.number: uptos.get(part.number, -1) for part in self._follower.parts}

    @property
    def trouble(self) -> str | None:
        """What is wrong with the index, in words."""
        return self._follower.trouble
