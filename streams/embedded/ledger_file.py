"""Creates, opens and reads the file of an embedded ledger."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from accountant.errors import MadeByPrereleaseVersion
from accountant.partition.draft import genesis_decision
from accountant.records import (
    DECODE_ERRORS,
    FORMAT,
    Genesis,
    PartitionRow,
    decode_decision,
    decode_partition_row,
    partition_row_key,
)
from streams.errors import Refused
from streams.files.immutable_sqlite import (
    file_stamp,
    has_wal,
    open_immutable,
    open_shared,
    reads_in_place,
)
from streams.files.owners import wrong_owner
from streams.files.private_files import make_private
from streams.files.whole_files import sync_directory

T = TypeVar("T")

ROWS: Final = "SELECT key, typeof(value), CAST(value AS BLOB), crc FROM state"
"""The start of a query for rows of `state`; it also works if damage changed a value's type."""

ADMINISTERED: Final = """
SELECT CAST(value AS BLOB) FROM decisions INDEXED BY decisions_of_admins
WHERE instr(value, CAST('"source":{"topic":"admin"' AS BLOB)) ORDER BY sequence
"""
"""The query for the decisions on records of administrators, in order."""

_NEW: Final = ".new"
_PAGE: Final = 1_000  # decisions that a reader fetches at a time
_WAL_BYTES: Final = 16 << 20  # SQLite cuts the WAL to this after a reader or a backup made it grow
_MOST_EPOCH: Final = 1 << 62
_APPLICATION_ID: Final = 0x50424C31  # "PBL1": another program's file is refused
_SCHEMA: Final = """
CREATE TABLE decisions (
    sequence INTEGER PRIMARY KEY, decided_at INTEGER NOT NULL, value BLOB NOT NULL
);
CREATE INDEX decisions_by_time ON decisions (decided_at, sequence);
CREATE INDEX decisions_of_admins ON decisions (sequence)
WHERE instr(value, CAST('"source":{"topic":"admin"' AS BLOB));
CREATE TABLE state (
    key BLOB PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE dead_letters (
    source TEXT NOT NULL, offset INTEGER NOT NULL, reason TEXT NOT NULL, value BLOB NOT NULL
);
CREATE TABLE owner (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL);
INSERT INTO owner VALUES (1, 0);
"""
SEALED_TABLE: Final = """
CREATE TABLE IF NOT EXISTS sealed (
    part TEXT NOT NULL, number INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (part, number)
) WITHOUT ROWID
"""
"""The snapshot of a seal; only a file whose log has archives has this table."""
ANSWER_HEADS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS answer_heads (
    partition INTEGER PRIMARY KEY, number INTEGER NOT NULL, hash TEXT NOT NULL,
    branch INTEGER NOT NULL, begun INTEGER NOT NULL, begins INTEGER NOT NULL
)
"""
"""The head of the answers; only the file of a ledger with a curator has this table."""
_OPTIONAL: Final = frozenset({"sealed", "answer_heads"})


def connect_writer(path: Path) -> apsw.Connection:
    """Return a connection that syncs each commit, after a checkpoint of the whole WAL.

    Raises: Refused: the file is missing or no ledger's file.
    """
    check_mark(path)
    with _refusing(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            db.set_busy_timeout(1000)
            if db.readonly("main"):  # SQLite opens what it may not write as well
                raise _not_openable(path, "it cannot be written")
            _check_file(db, path)
            # One call for each statement: SQLite would stop after the first that returns a row.
            db.pragma("journal_mode", "wal")
            db.pragma("synchronous", "full")
            db.pragma("journal_size_limit", _WAL_BYTES)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except BaseException:
            with contextlib.suppress(apsw.Error):
                db.close()
            raise
    return db


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about an unusable file into `Refused`."""
    try:
        yield
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise _not_openable(path, str(error)) from error
    except apsw.NotADBError as error:
        raise Refused(
            f"{path} is not a ledger's file. Check the address (--url, ACCOUNTANT_URL). If a "
            "ledger was there, its file is damaged: restore it, then run `accountant audit`"
        ) from error
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error


def _not_openable(path: Path, what: str) -> Refused:
    """Return the refusal of a file, which may belong to another user since it was restored."""
    owner = wrong_owner(path)
    return Refused(f"{path} cannot be opened: {f'it {owner}' if owner else what}")


def _damaged(path: object, what: str) -> Refused:
    return Refused(f"{path} is damaged: {what}. Restore it, then run `accountant audit`")


def _row_damaged(key: bytes, why: object) -> Refused:
    name = key.decode(errors="backslashreplace")
    return Refused(
        f"the ledger's file is damaged: the row of {name} in its `state` cannot be read: {why}. "
        "Start `accountant serve` again: it writes the row again from the log"
    )


def crc_of(key: bytes, value: bytes) -> int:
    """Return the checksum to store with a row of `state`; SQLite does not check its pages."""
    return zlib.crc32(value, zlib.crc32(key))


def flaw_of_row(key: bytes, kind: str, value: bytes, crc: object) -> str | None:
    """Return how a row of `state` differs from the stored one, None if it does not.

    Args:
        key, kind, value, crc: the columns of `ROWS`.
    """
    if kind != "blob":
        return f"it must be stored as blob, got {kind}"
    if crc != crc_of(key, value):
        return f"its checksum must be {crc_of(key, value)}, got {crc}"
    return None


def sound_row(key: bytes, kind: str, value: bytes, crc: object) -> bytes:
    """Return the value of a row of `state` after checking it.

    Raises: Refused: `flaw_of_row` finds a flaw.
    """
    flaw = flaw_of_row(key, kind, value, crc)
    if flaw is not None:
        raise _row_damaged(key, flaw)
    return value


def sound_rows(db: apsw.Connection) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the key and value of each row of `state`, None as the value of a damaged one."""
    for key, kind, value, crc in db.execute(ROWS):
        yield key, value if flaw_of_row(key, kind, value, crc) is None else None


def partition_row(db: apsw.Connection) -> PartitionRow | None:
    """Return the partition's row of `state`, None if there is none.

    Raises: Refused: it is damaged.
    """
    key = partition_row_key(0)
    rows: list[Any] = db.execute(f"{ROWS} WHERE key = ?", (key,)).fetchall()
    return decode_row_or_refuse(key, sound_row(*rows[0]), decode_partition_row) if rows else None


def decode_row_or_refuse(key: bytes, value: bytes, decode: Callable[[bytes], T]) -> T:
    """Return the decoded value of a row of `state`.

    Raises: Refused: it cannot be decoded.
    """
    try:
        return decode(value)
    except DECODE_ERRORS as error:
        raise _row_damaged(key, error) from error


def check_mark(path: Path) -> None:
    """Check that no version before the first release made the file.

    The file is opened as immutable: otherwise SQLite would already write files next to it. `create`
    sets the mark, `user_version`, before there is a WAL, so the main file has it. SQLite reads it,
    not this program: closing a plain file would drop this process's locks on it.

    Raises: Refused.
    """
    try:
        with contextlib.closing(open_immutable(path)) as db:
            made_by = int(db.execute("PRAGMA user_version").get or 0)
            is_ledger = db.execute("PRAGMA application_id").get == _APPLICATION_ID
    except apsw.Error:
        return  # the next open reports why it cannot be read
    if is_ledger and made_by < FORMAT:
        raise Refused(str(MadeByPrereleaseVersion(str(path))))


def _check_file(db: apsw.Connection, path: Path) -> None:
    if db.execute("PRAGMA application_id").get != _APPLICATION_ID:
        raise Refused(f"{path} is not a ledger made by `accountant`")
    made_by = int(db.execute("PRAGMA user_version").get or 0)
    if made_by > FORMAT:
        raise Refused(
            f"{path} has format {made_by}, and this version reads formats up to {FORMAT}: run the "
            "newer version"
        )
    _check_schema(db, path)
    _check_keys(db, path)


def _check_schema(db: apsw.Connection, path: Path) -> None:
    """Check that the file has exactly the tables and indexes of a ledger.

    A trigger or a view could change what is stored, or hide it, while checksums stay right.

    Raises: Refused.
    """
    found, due = _schema(db), _due_schema()
    for name in sorted(found.keys() | due.keys()):
        if found.get(name) != due.get(name) and not (name in _OPTIONAL and name not in found):
            what = "is missing" if name not in found else "is not as a ledger has it"
            raise _damaged(path, f"{(found.get(name) or due[name])[0]} {name} {what}")


def _schema(db: apsw.Connection) -> dict[str, tuple[str, str]]:
    """Return the type and the text of each object in a file, without its white space."""
    rows: Any = db.execute("SELECT name, type, sql FROM sqlite_schema")
    return {str(name): (str(kind), " ".join(str(sql).split())) for name, kind, sql in rows}


@functools.cache
def _due_schema() -> dict[str, tuple[str, str]]:
    with contextlib.closing(apsw.Connection(":memory:")) as db:
        db.execute(_SCHEMA + SEALED_TABLE + ";" + ANSWER_HEADS_TABLE)
        return _schema(db)


def _check_keys(db: apsw.Connection, path: Path) -> None:
    """Check for keys that a read of the log or of `state` in order would skip.

    Raises: Refused.
    """
    key = db.execute("SELECT quote(key) FROM state WHERE key < x'' LIMIT 1").get  # no blob
    if key is not None:
        raise _damaged(path, f"a row of `state` has the key {key}, which must be a blob")
    first: Any = db.execute("SELECT min(sequence) FROM decisions").get
    if first is not None and first < 0:
        raise _damaged(path, f"decision {first} must have a number from 0 on")
    owners: Any = db.execute("SELECT typeof(epoch), epoch FROM owner").fetchall()
    if [kind for kind, _ in owners] != ["integer"] or not 0 <= owners[0][1] < _MOST_EPOCH:
        raise _damaged(path, f"`owner` must hold one epoch, a whole number, got {owners}")


def create(path: Path, genesis: Genesis, at: int, *, private: bool = False) -> None:
    """Create the file with its genesis, completely or not at all; an existing file stays as it is.

    Args:
        private: only its user may open it and the files that SQLite puts next to it.
    Raises: Refused: the directory cannot be written.
    """
    if path.exists():
        return
    new = path.with_name(f".{path.name}.{os.getpid()}{_NEW}")
    try:
        remove(new)
        if private:
            make_private(new)
        db = apsw.Connection(str(new))
        # Switch to WAL mode before there is any content. A crash during a later switch would leave
        # a journal that only a writer can roll back, and a reader may come first.
        db.pragma("application_id", _APPLICATION_ID)
        db.pragma("user_version", FORMAT)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        first = genesis_decision(genesis, at)
        with db:
            db.execute(_SCHEMA)
            db.execute(
                "INSERT INTO decisions (sequence, decided_at, value) VALUES (0, ?, ?)",
                (at, first.value),
            )
        db.close()
        with contextlib.suppress(FileExistsError):
            os.link(new, path)  # unlike a rename, this never replaces another process' file
        sync_directory(path.parent)
    except (OSError, apsw.Error) as error:
        raise Refused(f"{path} cannot be made: {error}") from error
    finally:
        remove(new)


def leftovers(path: Path) -> Iterator[Path]:
    """Yield the temporary files that a killed `create` left beside a file."""
    for entry in path.parent.iterdir():
        middle = entry.name.removeprefix(f".{path.name}.").removesuffix(_NEW)
        if middle.isdecimal() and entry.name == f".{path.name}.{middle}{_NEW}":
            yield entry


def remove(path: Path) -> None:
    """Remove a file and the files that SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def read_genesis(path: Path) -> Genesis:
    """Return the genesis in the file's decision 0.

    Raises: Refused: decision 0 is missing, cannot be read, or holds no genesis.
    """
    with contextlib.closing(read_decisions(path, first=0, limit=1)) as values:
        for value in values:
            try:
                genesis = decode_decision(value).genesis
            except DECODE_ERRORS as error:
                raise _damaged(path, f"decision 0 cannot be read: {error}") from error
            if genesis is not None:
                return genesis
    raise Refused(f"{path} has no genesis record: restore it from a backup")


class FileChanged(Refused):
    """A file that was read as immutable, without a lock, was written at the same time."""


@contextlib.contextmanager
def reader(path: Path, *, traceless: bool = False) -> Iterator[apsw.Connection]:
    """Open the file for reading only; a writer may have it open.

    A file that this user cannot write, or in a directory that this user cannot write (a read-only
    mount, another user's directory), is read as immutable. That needs a complete file, without the
    -wal of a writer. No file is left beside it.

    Args:
        traceless: read any file as immutable if no process has it open.

    Raises:
        Refused: the file is missing or not a ledger's file.
        FileChanged: it changed while it was read as immutable; read it again.
    """
    check_mark(path)
    with _refusing(path):
        in_place = reads_in_place(path) or (traceless and not has_wal(path))
        still = file_stamp(path) if in_place else None
        if still is not None:
            db = _check_connection(open_immutable(path), path)
        else:
            try:
                db = _check_connection(open_shared(path), path)
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                still = file_stamp(path)
                if still is None:
                    raise
                db = _check_connection(open_immutable(path), path)
        failed: Exception | None = None
        try:
            yield db
        except Exception as error:
            failed = error
        finally:
            with contextlib.suppress(apsw.Error):  # the caller has read what it needs
                db.close()
        if still is not None and file_stamp(path) != still:
            # The read may mix old and new pages, and look damaged.
            what = f"{path} was written while it was read: read it again"
            raise FileChanged(what) from failed
        if failed is not None:
            raise failed


def _check_connection(db: apsw.Connection, path: Path) -> apsw.Connection:
    try:
        db.set_busy_timeout(1000)
        _check_file(db, path)
    except BaseException:
        with contextlib.suppress(apsw.Error):
            db.close()
        raise
    return db


def read_decisions(
    path: Path, *, first: int = 0, limit: int | None = None
) -> Generator[bytes, None, None]:
    """Yield the raw decisions of a file from number `first` on, at most `limit` of them.

    Raises: Refused: as `reader` and `numbered_decisions`.
    """
    with reader(path) as db:
        for _, value in numbered_decisions(db, first=first, limit=limit):
            yield value


def numbered_decisions(
    db: apsw.Connection, *, first: int = 0, limit: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield the decisions of an open file from number `first` on, each with its number.

    Each page is read by a statement of its own, because the writer's WAL cannot shrink while a
    statement reads. Decisions never change, so the pages need no common snapshot.

    Raises: Refused: the file is damaged, and a value in it is no blob.
    """
    # One changed bit of a file can turn a blob into a text or a number. The query casts the value:
    # apsw would raise on a text that is no UTF-8, and hide its type.
    query = (
        "SELECT sequence, typeof(value), CAST(value AS BLOB) FROM decisions "
        "WHERE sequence >= ? ORDER BY sequence LIMIT ?"
    )
    left = math.inf if limit is None else limit
    while left > 0:
        page: list[Any] = db.execute(query, (first, int(min(_PAGE, left)))).fetchall()
        for sequence, kind, value in page:
            if kind != "blob":
                what = f"decision {sequence} must be stored as blob, got {kind}"
                raise _damaged(db.filename, what)
            yield sequence, value
        if len(page) < _PAGE:
            return
        first = page[-1][0] + 1
        left -= len(page)
