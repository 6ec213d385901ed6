"""Usage, and pages of a dataset's decisions, of a ledger's file while its writer works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from accountant.partition import Partition
from accountant.records.parts import value_about
from accountant.views.usage import By, UsageRow
from accountant.views.why import UsageSums
from streams.embedded.sqlite_log import SqliteLog
from streams.errors import Gone
from streams.index import UsageReader
from streams.log.single_decisions import decisions_at


class FileIndex:
    """Reads usage, and pages of a dataset's decisions, as far as this process shows the log.

    Args:
        partition: returns the current state; raises Unavailable where there is none.
    """

    def __init__(
        self, log: SqliteLog, index: UsageReader, partition: Callable[[], Partition]
    ) -> None:
        self._log = log
        self._index = index
        self._partition = partition

    async def rows(self, dataset: str, by: By) -> list[UsageRow]:
        return await asyncio.to_thread(self._index.rows, dataset, by, self._partition().sequence)

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        read, upto = self._index.sums, self._partition().sequence
        return await asyncio.to_thread(read, dataset, upto, since_day=since_day)

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        partition = self._partition()
        ledger = partition.ledgers.get(dataset)
        last = 0 if ledger is None else ledger.sequence
        upto = partition.sequence  # read after the ledger, so it is not older
        return await asyncio.to_thread(self._page, dataset, last, upto, after, limit)

    def _page(self, dataset: str, last: int, upto: int, after: int, limit: int) -> list[bytes]:
        """Return decisions of a dataset after a number in it; see `Service.decisions`.

        Args:
            last: the number of the dataset's last decision, or of an earlier one.
            upto: the number in the log of that decision, or of a later one.
        Raises: Gone; Unavailable: the index is behind, or cannot be read. LogDamaged.
        """
        kept = self._log.first_unarchived()
        # An index that is older than an archive still lists archived decisions.
        places = self._index.places(dataset, upto, after=after, limit=limit, since=kept)
        return decisions_of(self._log, dataset, places, after=after, last=last)


def decisions_of(
    log: SqliteLog, dataset: str, places: Sequence[tuple[int, int]], *, after: int, last: int
) -> list[bytes]:
    """Return decisions of a dataset, as it sees them.

    Args:
        places: their numbers in the dataset and in the log, in order.
        after: the number in the dataset that the first one should follow.
        last: the number of the dataset's last decision, or of an earlier one.
    Raises: Gone: decisions before the first one are in an archive. LogDamaged, Unavailable.
    """
    before = places[0][0] - 1 if places else last
    if before > after:
        raise Gone(
            f"decisions {after + 1} to {before} of {dataset} are in an archive of the log: "
            f"read on after={before}; `accountant log export --archive FILE` has the others",
            after=before,
        )
    found = decisions_at(log, 0, [place for _, place in places])
    return [value_about(value, dataset) for value in found]
