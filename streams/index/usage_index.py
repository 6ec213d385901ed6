"""The SQLite file of an index; the log can always rebuild it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import apsw

from accountant.partition import hash_of
from accountant.views.tallies import count
from streams.files.immutable_sqlite import FileStamp, file_stamp, has_wal, open_immutable
from streams.index.beginning import IndexPosition, beginning_of
from streams.index.rows import Rows
from streams.index.tables import SCHEMA, added, forget, write
from streams.log.decision_log import DecisionLog
from streams.log.single_decisions import has_decision

APPLICATION_ID: Final = 0x50424958  # "PBIX"
VERSION: Final = 2
_MAGIC: Final = b"SQLite format 3\x00"
_BUSY_MS: Final = 1_000
_SLICE: Final = 1_000  # decisions of a slice if no other task waits


class UnusableIndex(Exception):
    """The file cannot be used as index: it is another program's, or cannot be written."""


class IndexMoved(Exception):
    """The index has another position than its reader expects: another process wrote to it."""


NOTHING: Final = IndexPosition(-1, "", "")


def is_index(path: Path) -> bool:
    """Return whether a file is an index of this program, or missing or empty."""
    try:
        with path.open("rb") as file:
            begin = file.read(72)
    except FileNotFoundError:
        return True
    ours = begin[:16] == _MAGIC and begin[68:72] == APPLICATION_ID.to_bytes(4, "big")
    return not begin or ours


class UsageIndex:
    """An open index. Any thread may call it; calls wait for one another.

    Several processes may have one file open. Each writes rows and place in one transaction, and
    only where the place is still the one from which it counted.
    """

    def __init__(self, db: apsw.Connection, *, path: Path | None) -> None:
        self.path = path
        self._db = db
        self._one_at_a_time = threading.Lock()
        db.set_busy_timeout(_BUSY_MS)
        db.create_scalar_function("added", added, 2, deterministic=True)
        if path is not None:
            # Set these bytes before WAL mode, which would keep them out of the file until a
            # checkpoint. Other processes recognise an index by them.
            if db.pragma("application_id") != APPLICATION_ID:
                db.pragma("application_id", APPLICATION_ID)
            db.pragma("journal_mode", "wal")
        # A power cut may lose the last rows together with the position: they are added again.
        db.pragma("synchronous", "normal")
        if db.pragma("user_version") != VERSION:
            self._make(unless_made=True)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file, and make it if it is missing.

        Raises:
            UnusableIndex: it is another program's, or this user cannot write it.
            apsw.Error: it is damaged, or another process has locked it.
        """
        try:
            if not is_index(path):
                raise UnusableIndex(f"{path} is not an index made by `accountant`: move it away")
            db = apsw.Connection(str(path))
        except (OSError, apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError) as error:
            raise UnusableIndex(f"{path} cannot be opened: {error}") from error
        try:
            if db.readonly("main"):
                raise UnusableIndex(f"{path} cannot be written by this user")
            return cls(db, path=path)
        except (apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError) as error:
            with contextlib.suppress(apsw.Error):
                db.close()
            raise UnusableIndex(f"{path} cannot be written: {error}") from error
        except BaseException:
            with contextlib.suppress(apsw.Error):
                db.close()
            raise

    @classmethod
    def temporary(cls, copied: Path | None = None) -> Self:
        """Return an index of this process alone, that is gone once it is closed.

        Args:
            copied: an index to begin with. One that is missing, another program's or damaged is
                left aside.
        """
        db = apsw.Connection("")  # SQLite keeps it in memory, and spills to a temporary file
        if copied is not None and copied.exists() and is_index(copied):
            with contextlib.suppress(apsw.Error):
                source, still = _reader(copied)
                with contextlib.closing(source), db.backup("main", source, "main") as backup:
                    backup.step()
                if still is not None and file_stamp(copied) != still:
                    # Another process wrote to it meanwhile: the copy may be half old.
                    db.close()
                    db = apsw.Connection("")
        try:
            return cls(db, path=None)
        except apsw.Error:  # the copied index is damaged
            db.close()
            return cls(apsw.Connection(""), path=None)

    def start_again(self, partition: int | None = None) -> None:
        """Delete everything, or one partition, in one transaction."""
        if partition is None or self.partitions() <= {partition}:
            self._make(unless_made=False)
            return
        with self._one_at_a_time, _immediate(self._db) as db:
            forget(db, partition)

    def partitions(self) -> set[int]:
        """Return the numbers of the partitions in the index."""
        with self._one_at_a_time:
            return {int(number) for (number,) in self._db.execute("SELECT partition FROM reached")}

    def _make(self, *, unless_made: bool) -> None:
        with self._one_at_a_time, _immediate(self._db) as db:
            if unless_made and db.pragma("user_version") == VERSION:
                return  # another process was first
            tables = "SELECT name FROM sqlite_schema WHERE type = 'table'"
            for (name,) in db.execute(tables).fetchall():
                db.execute(f'DROP TABLE "{name}"')
            db.execute(SCHEMA)
            db.pragma("user_version", VERSION)

    def reached(self, partition: int = 0) -> IndexPosition:
        """Return the position in a partition's log, `NOTHING` if it has none."""
        with self._one_at_a_time:
            return _reached(self._db, partition)

    def catch_up(
        self,
        log: DecisionLog,
        *,
        partition: int = 0,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Add a log to its end; clear the index first if it is of another log.

        Args:
            progress: called with the number of decisions read so far.
        Raises: tallies.LogDiffers, tallies.UnreadableDecision: the log is damaged.
        """
        place = self.reached(partition)
        if place != NOTHING and not has_decision(log, partition, place.sequence, place.head):
            self.start_again(partition)
            place = NOTHING
        if place == NOTHING:
            place = self.begin(partition, log)
        while values := log.read(partition, place.sequence + 1, _SLICE):
            place = self.take(partition, place, values)
            progress(place.sequence + 1)

    def take_all(self, partition: int, values: Iterable[bytes]) -> None:
        """Add the decisions that follow the last one; raises as `take`."""
        place, rest = self.reached(partition), iter(values)
        while some := list(islice(rest, _SLICE)):
            place = self.take(partition, place, some)

    def begin(self, partition: int, log: DecisionLog) -> IndexPosition:
        """Add the usage before the seal of an archived log; return the new position.

        Where another process has written meanwhile, nothing is taken in.

        Raises: LogDamaged; apsw.Error.
        """
        beginning = beginning_of(log, partition)
        if beginning is None:
            return NOTHING
        with self._one_at_a_time, _immediate(self._db) as db:
            if (found := _reached(db, partition)) != NOTHING:
                return found
            write(db, partition, beginning.counted, beginning.reached)
        return beginning.reached

    @contextlib.contextmanager
    def at_last(self) -> Iterator[Rows]:
        """Read rows of one moment, whatever the index has reached."""
        with self._one_at_a_time, self._db:  # one transaction, so one moment
            yield Rows(self._db)

    @contextlib.contextmanager
    def at(self, reached: Mapping[int, IndexPosition]) -> Iterator[Rows]:
        """Read rows of one moment, at which the index has reached exactly these decisions.

        Raises: Moved: it has not.
        """
        with self._one_at_a_time, self._db:  # one transaction, so one moment
            for partition, decision in reached.items():
                if _reached(self._db, partition) != decision:
                    raise IndexMoved
            yield Rows(self._db)

    def take(self, partition: int, after: IndexPosition, values: Sequence[bytes]) -> IndexPosition:
        """Take in decisions that follow one another; return the last one taken in.

        Args:
            after: the last one taken in before. Where another process has written meanwhile,
                nothing is taken in, and what it has reached is returned.

        Raises:
            tallies.LogDiffers: they do not follow `after`.
            tallies.UnreadableDecision: one of them cannot be read; none is taken in.
            apsw.Error.
        """
        head = after.head if after.sequence >= 0 else None
        counted = count(values, after=after.sequence, head=head)
        with self._one_at_a_time, _immediate(self._db) as db:
            if (found := _reached(db, partition)) != after:
                return found
            reached = IndexPosition(counted.last, counted.head, after.log or hash_of(values[0]))
            write(db, partition, counted, reached)
        return reached

    def close(self) -> None:
        """Close the file. Never raises."""
        with self._one_at_a_time, contextlib.suppress(apsw.Error):
            self._db.close()


@contextlib.contextmanager
def _immediate(db: apsw.Connection) -> Iterator[apsw.Connection]:
    """Run a transaction that holds the right to write from its begin on."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(apsw.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        raise


def _reached(db: apsw.Connection, partition: int) -> IndexPosition:
    query = "SELECT sequence, head, log FROM reached WHERE partition = ?"
    found: Any = db.execute(query, (partition,)).fetchone()
    return NOTHING if found is None else IndexPosition(*found)


def _reader(path: Path) -> tuple[apsw.Connection, FileStamp | None]:
    """Open an index for reading alone.

    One that nobody has open is read as it lies there, since SQLite would make a -wal and a -shm
    beside it: with it, what must still be so after the reading.
    """
    still = None if has_wal(path) else file_stamp(path)
    if still is None:
        return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY), None
    return open_immutable(path), still
