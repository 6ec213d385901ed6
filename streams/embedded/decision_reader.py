"""Reads decisions in a ledger's file while its writer works: one by one, by page or by slice."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw

from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.records.parts import value_about
from accountant.views.usage import By, UsageRow
from accountant.views.why import UsageSums
from streams.embedded.ledger_file import numbered_decisions, reader
from streams.embedded.sealed_log import first_unarchived, usage_of_seal
from streams.errors import Gone, Unavailable
from streams.index import Beginning, UsageReader
from streams.service.ledger_service import MAX_PAGE_BYTES


def read_slice(db: apsw.Connection, first: int, limit: int) -> list[bytes]:
    """Return decisions from number `first` on, as `DecisionReader.slice`."""
    found = list(numbered_decisions(db, first=first, limit=limit))
    start = first_unarchived(db)
    for number, (sequence, _) in enumerate(found, first):
        if sequence == number:
            continue
        if number < start:
            raise Gone(f"decision {number} of the log is in an archive")
        raise LogDamaged(f"decision {number} of the log is missing")
    return [value for _, value in found]


class DecisionReader:
    """Reads decisions by number; several threads share its read-only connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_at_a_time = threading.Lock()
        self._db: apsw.Connection | None = None

    def decision(self, sequence: int) -> bytes | None:
        query = "SELECT value FROM decisions WHERE sequence = ?"
        with self._reading() as db:
            value = db.execute(query, (sequence,)).get
        return None if value is None else bytes(value)

    def slice(self, first: int, limit: int) -> list[bytes]:
        """Return decisions from number `first` on, fewer than `limit` only where the log ends.

        Raises: Gone: it was archived. LogDamaged: it is missing. Unavailable, Refused.
        """
        with self._reading() as db:
            return read_slice(db, first, limit)

    def first_unarchived(self) -> int:
        """Return the number of the first decision of the log's unbroken end."""
        with self._reading() as db:
            return first_unarchived(db)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        with self._one_at_a_time:
            try:
                if self._db is None:
                    flags = apsw.SQLITE_OPEN_READONLY
                    self._db = apsw.Connection(str(self._path), flags=flags)
                    self._db.set_busy_timeout(1000)
                yield self._db
            except apsw.Error as error:
                raise Unavailable(f"{self._path} cannot be read: {error}") from error

    def close(self) -> None:
        with self._one_at_a_time:
            if self._db is not None:
                self._db.close()
                self._db = None


class FileIndex:
    """Reads usage, and pages of a dataset's decisions, as far as this process shows the log.

    Args:
        partition: returns the current state; raises Unavailable where there is none.
    """

    def __init__(
        self, reader: DecisionReader, index: UsageReader, partition: Callable[[], Partition]
    ) -> None:
        self._reader = reader
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
        kept = self._reader.first_unarchived()
        # An index that is older than an archive still lists archived decisions.
        places = self._index.places(dataset, upto, after=after, limit=limit, since=kept)
        before = places[0][0] - 1 if places else last
        if before > after:
            raise Gone(
                f"decisions {after + 1} to {before} of {dataset} are in an archive of the log: "
                f"read on after={before}; `accountant log export --archive FILE` has the others",
                after=before,
            )
        found, size = list[bytes](), 0
        for number, place in places:
            value = self._reader.decision(place)
            if value is None:
                raise LogDamaged(f"decision {place}, number {number} of {dataset}, is missing")
            found.append(value_about(value, dataset))
            size += len(value)
            if size >= MAX_PAGE_BYTES:
                break
        return found


class LogSlices:
    """Reads the log in a ledger's file slice by slice, for an index."""

    def __init__(self, path: Path, *, traceless: bool = False) -> None:
        self._path = path
        self._open = contextlib.ExitStack()
        with self._translate_errors():
            self._db = self._open.enter_context(reader(path, traceless=traceless))

    def read(self, first: int, limit: int) -> Sequence[bytes]:
        """Return decisions from number `first` on.

        Raises: Unavailable, Refused: the file cannot be read.
        """
        with self._translate_errors():
            return [value for _, value in numbered_decisions(self._db, first=first, limit=limit)]

    def beginning(self) -> Beginning | None:
        """Return the usage before the seal, None if the log has no archives.

        Raises: Unavailable, Refused, LogDamaged.
        """
        with self._translate_errors():
            return usage_of_seal(self._db)

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise Unavailable(f"{self._path} cannot be read: {error}") from error
