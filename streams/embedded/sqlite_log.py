"""The log in a ledger's file, read while its writer works."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import apsw

from accountant.errors import LogDamaged
from accountant.records.operator_records import Seal
from accountant.replay.sealed_log import SealSnapshot
from accountant.replay.state_comparison import rows_at_one_moment
from streams.embedded.journal import first_since
from streams.embedded.ledger_file import (
    FileChanged,
    numbered_decisions,
    partition_row,
    read_decisions,
    reader,
    sound_rows,
)
from streams.embedded.sealed_log import first_unarchived, read_seal
from streams.errors import Gone, InputInvalid, Unavailable
from streams.log.archives import join_archives
from streams.log.decision_log import MAX_LINE, DecisionLog, Part, PartSize

T = TypeVar("T")

_PAGE: Final = 1_000  # decisions read at a time from the end


class SqliteLog(DecisionLog):
    """The log in an embedded ledger's file. Any thread may call it.

    Args:
        archives: all archives of its beginning, in order, or none; only `parts` reads them.
        traceless: open and close the file for each read, and leave no file beside it.
    """

    def __init__(
        self, path: Path, archives: tuple[Path, ...] = (), *, traceless: bool = False
    ) -> None:
        self.path = path
        self.archives = archives
        self._traceless = traceless
        self._one_at_a_time = threading.Lock()
        self._opened = contextlib.ExitStack()
        self._db: apsw.Connection | None = None

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        return self._of_one_file(partial(_page, first=first, limit=limit))

    def last(self, partition: int) -> tuple[int, bytes]:
        return self._of_one_file(_last)

    def seal(self, partition: int) -> tuple[SealSnapshot, Seal] | None:
        return self._of_one_file(read_seal)

    def first_unarchived(self) -> int:
        """Return the number of the first decision of the log's unbroken end."""
        return self._of_one_file(first_unarchived)

    def sizes(self) -> list[PartSize]:
        return [PartSize(0, self.last(0)[0] + 1)]

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        if only not in {None, 0}:
            return
        with reader(self.path) as db, db:  # one transaction, so that all reads see one state
            last = db.execute("SELECT max(sequence) FROM decisions").get
            row = partition_row(db)  # raises if the row is damaged
            state = rows_at_one_moment(dict(sound_rows(db)), 0)
            found = read_seal(db)
            begin = 0 if found is None else found[1].archived + 1  # of what is in the file
            first = begin if since is None else max(begin, first_since(db, since))
        # Decisions that are appended from now on are left out, so that the total is right.
        total = 0 if last is None else int(last) + 1
        part = Part(
            0,
            read_decisions(self.path, first=first, limit=total - first),
            total - first,
            None if state is None else state.end,
            state=state,
            gapless=True,
            first=first,
            ordered=row is not None and row.clock_resets.number == 0,
            newest_first=lambda: _newest_first(self.path, first, total),
        )
        if found is None:
            if self.archives:
                hint = "leave --archive out"
                raise InputInvalid(f"the log in {self.path} has no archives", hint=hint)
            yield part
            return
        sealed, seal = found
        archived = seal.archived, seal.head
        if self.archives:
            rest = read_decisions(self.path, first=begin, limit=total - begin)
            values = join_archives(self.archives, rest, MAX_LINE)
            yield part._replace(
                values=values, total=total, archived=archived, first=0, newest_first=None
            )
        elif part.ordered and first > begin:
            yield part  # the archived decisions are older than `since`
        else:
            there = total - seal.archived  # without the archived decisions, but with decision 0
            values = read_decisions(self.path, limit=there)
            newest_first = partial(_newest_first, self.path, begin, total)
            yield part._replace(
                values=values,
                total=there,
                sealed=sealed,
                archived=archived,
                first=0,
                newest_first=newest_first,
            )

    def forget(self, partition: int) -> None:
        """Close the file: another one may be at the path."""
        self.close()

    def close(self) -> None:
        with self._one_at_a_time:
            self._db = None
            self._opened.close()

    def _of_one_file(self, read: Callable[[apsw.Connection], T]) -> T:
        """Read in one transaction; read again once if the file was written without a lock."""
        try:
            with self._reading() as db, db:
                found = read(db)
        except FileChanged:
            with self._reading() as db, db:
                found = read(db)
        return found

    @contextlib.contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        with self._one_at_a_time:
            try:
                if self._traceless:
                    with reader(self.path, traceless=True) as db:
                        yield db
                    return
                if self._db is None:
                    self._db = self._opened.enter_context(reader(self.path))
                yield self._db
            except apsw.Error as error:
                raise Unavailable(f"{self.path} cannot be read: {error}") from error


def _page(db: apsw.Connection, *, first: int, limit: int) -> list[bytes]:
    found = list(numbered_decisions(db, first=first, limit=limit))
    for number, (sequence, _) in enumerate(found, first):
        if sequence == number:
            continue
        if number < (begin := first_unarchived(db)):
            raise Gone(f"decision {number} of the log is in an archive", first=begin)
        raise LogDamaged(f"decision {number} of the log is missing")
    return [value for _, value in found]


def _last(db: apsw.Connection) -> tuple[int, bytes]:
    end = db.execute("SELECT max(sequence) FROM decisions").get
    last, row = -1 if end is None else int(end), partition_row(db)
    due = last if row is None else max(last, row.partition_sequence)
    values = dict(numbered_decisions(db, first=max(0, due), limit=1))
    if due not in values:
        raise LogDamaged(f"decision {max(0, due)} of the log is missing")
    return due, values[due]


def _newest_first(path: Path, first: int, end: int) -> Iterator[bytes]:
    """Yield the decisions of a file from the one before `end` back to `first`."""
    with reader(path) as db:
        while end > first:
            start = max(first, end - _PAGE)
            page = [*numbered_decisions(db, first=start, limit=end - start)]
            yield from (value for number, value in reversed(page) if number < end)
            end = start
