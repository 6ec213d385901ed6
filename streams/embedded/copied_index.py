"""The index of usage of a ledger's file, copied for a process that writes no byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from accountant.errors import LedgerFault
from accountant.partition import Partition
from accountant.records.outcomes import Outcome
from accountant.views.usage import By, UsageRow
from accountant.views.why import UsageSums
from streams.embedded.file_index import decisions_of
from streams.embedded.sqlite_log import SqliteLog
from streams.errors import Refused, Unavailable
from streams.index import UsageIndex
from streams.index.rows import Rows

_MOST_BEHIND: Final = 10_000  # decisions; an index further behind is caught up for usage alone

T = TypeVar("T")


class FileReads(Protocol):
    """Reads of the file, one call at a time, which start again where the file has changed."""

    def read(self, call: Callable[..., T], *args: Any) -> T:
        """Call a function that reads."""
        ...

    async def in_thread(self, call: Callable[..., T], *args: Any) -> T:
        """As `read`, in another thread."""
        ...


class CopiedIndex:
    """Usage, pages of decisions, and counts of decisions.

    Args:
        log: in the ledger's file.
        copied: the index that is copied to begin with, where there is one.
        partition: returns the current state.
        last: returns the number of the last decision that was read, without a look at the file.
    """

    def __init__(
        self,
        log: SqliteLog,
        copied: Path | None,
        file: FileReads,
        *,
        partition: Callable[[], Partition],
        last: Callable[[], int],
    ) -> None:
        self._log = log
        self._copied = copied
        self._file = file
        self._partition = partition
        self._last = last
        self._index: UsageIndex | None = None

    def forget(self) -> None:
        """Drop the copy."""
        if self._index is not None:
            self._index.close()
            self._index = None

    async def rows(self, dataset: str, by: By) -> list[UsageRow]:
        return await self._file.in_thread(self._rows, dataset, by)

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        return await self._file.in_thread(self._sums, dataset, since_day)

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        return await self._file.in_thread(self._decisions, dataset, after, limit)

    def _rows(self, dataset: str, by: By) -> list[UsageRow]:
        with self._caught_up() as rows:
            return rows.usage(dataset, by)

    def _sums(self, dataset: str, since_day: str) -> UsageSums | None:
        with self._caught_up() as rows:
            return rows.sums(dataset, since_day=since_day)

    def _decisions(self, dataset: str, after: int, limit: int) -> list[bytes]:
        ledger = self._partition().ledgers.get(dataset)
        # An index that is older than an archive still lists archived decisions.
        first = self._log.first_unarchived()
        with self._caught_up() as rows:
            places = rows.places(dataset, after=after, limit=limit, since=first)
        last = 0 if ledger is None else ledger.sequence
        return decisions_of(self._log, dataset, places, after=after, last=last)

    @contextmanager
    def _caught_up(self) -> Iterator[Rows]:
        index = self._opened()
        index.catch_up(self._log)
        with index.at_last() as rows:
            yield rows

    def _opened(self) -> UsageIndex:
        if self._index is None:
            self._index = UsageIndex.temporary(self._copied)
        return self._index

    def requests(self) -> Mapping[tuple[str, str, str], int]:
        return {
            (name, outcome, reason): count
            for name, outcome, reason, count in self._file.read(self._counts, None)
        }

    def requests_on(self, name: str) -> Mapping[tuple[str, str | None], int]:
        return {
            (outcome, reason or None): count
            for _, outcome, reason, count in self._file.read(self._counts, name)
        }

    def last_on(self, name: str) -> int:
        """Return the number of the decision as of which a dataset is shown."""
        return self._last()

    def _counts(self, dataset: str | None) -> list[tuple[str, str, str, int]]:
        """Return grants and refusals by dataset and reason, none where the index is far behind."""
        partition = self._partition()
        if partition.sequence - self._opened().reached().sequence > _MOST_BEHIND:
            return []
        with suppress(LedgerFault, Refused, Unavailable), self._caught_up() as rows:
            names = [dataset] if dataset is not None else list(partition.ledgers)
            opened = [(name, Outcome.OPENED.value, "", 1) for name in names]
            return [*opened, *rows.counts(dataset)]
        return []
