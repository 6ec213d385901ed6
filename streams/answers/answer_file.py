"""Reads a whole store of answers without writing to it; a curator may be at work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from streams.answers.chain import ChainEnd, Entry, entries_in_order, read_chain
from streams.answers.store import StoredAnswer
from streams.answers.tables import (
    APPLICATION_ID,
    VERSION,
    WITHOUT_CHAIN,
    answers_in_order,
    check_schema,
    select_answers,
)
from streams.errors import Refused
from streams.files.immutable_sqlite import (
    file_stamp,
    open_immutable,
    open_shared,
    reads_in_place,
)

_BUSY_MS: Final = 10_000


class BoundLog(NamedTuple):
    """The log that a partition's answers belong to.

    Attributes:
        ledger: its id.
        begins: number of the first decision whose grants only this store has answered.
    """

    ledger: str
    begins: int


class AnswerFile:
    """A store of answers, open for reading. Use `open_answers` to make one.

    Raises of every method: Refused: the file cannot be read.
    """

    def __init__(self, db: apsw.Connection, path: Path) -> None:
        self._db = db
        self.path = path

    def get(self, grant: str) -> StoredAnswer | None:
        """Return the answer of a grant as it is stored now, None without any."""
        with refusing(self.path):
            return next(select_answers(self._db, "grant_hash = ?", (grant,)), None)

    def of_dataset(self, dataset: str) -> list[StoredAnswer]:
        """Return the answers to a dataset's questions, oldest first."""
        with refusing(self.path):
            where = "dataset = ? ORDER BY partition, number"
            return list(select_answers(self._db, where, (dataset,)))

    def logs(self) -> dict[int, BoundLog]:
        """Return the log of each partition."""
        with refusing(self.path):
            rows: Any = self._db.execute("SELECT partition, ledger, begins FROM logs")
            return {partition: BoundLog(ledger, begins) for partition, ledger, begins in rows}

    def ends(self) -> dict[int, int]:
        """Return the number of the last answer of each partition."""
        with refusing(self.path):
            query = "SELECT partition, max(number) FROM answers GROUP BY partition"
            rows: Any = self._db.execute(query)
            return dict(rows)

    def chain(self, partition: int, ledger: str) -> ChainEnd | None:
        """Return a partition's chain after checking all of it, None of an earlier version's store.

        Raises: Refused: an answer was changed, removed or added.
        """
        with refusing(self.path):
            if self._db.pragma("user_version") == WITHOUT_CHAIN:
                return None
            self._db.execute("BEGIN")  # so that all reads see one state
            try:
                answers = answers_in_order(self._db, partition)
                found = read_chain(self._db, partition, ledger, answers)
            finally:
                self._db.execute("ROLLBACK")
        return found

    def entries(self, partition: int) -> Iterator[tuple[StoredAnswer, Entry | None]]:
        """Yield each answer of a partition with its entry in the chain, None where it has none."""
        with refusing(self.path):
            answers = answers_in_order(self._db, partition)
            if self._db.pragma("user_version") == WITHOUT_CHAIN:
                yield from ((answer, None) for answer in answers)
            else:
                yield from zip(answers, entries_in_order(self._db, partition), strict=True)

    def copy_to(self, path: Path) -> None:
        """Write what is stored at this moment into a new file."""
        with (
            refusing(self.path),
            contextlib.closing(apsw.Connection(str(path))) as copy,
            copy.backup("main", self._db, "main") as backup,
        ):
            backup.step()

    def places(self) -> Iterator[tuple[int, int, str]]:
        """Yield partition, number and grant of each answer."""
        with refusing(self.path):
            query = "SELECT partition, number, grant_hash FROM answers ORDER BY partition, number"
            rows: Any = self._db.execute(query)
            yield from rows


@contextlib.contextmanager
def open_answers(path: Path) -> Iterator[AnswerFile]:
    """Open a store of answers for reading.

    Raises: Refused: it is none, a newer version's, or cannot be read.
    """
    with refusing(path):
        try:
            db = _connect(open_immutable(path) if reads_in_place(path) else open_shared(path), path)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # In a directory that this user cannot write, SQLite cannot share the file.
            if file_stamp(path) is None:
                raise
            db = _connect(open_immutable(path), path)
    try:
        yield AnswerFile(db, path)
    finally:
        with contextlib.suppress(apsw.Error):  # the caller has read what it needs
            db.close()


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into a refusal that names the file."""
    try:
        yield
    except apsw.Error as error:
        raise Refused(f"the answers in {path} cannot be read: {error}") from error


def _connect(db: apsw.Connection, path: Path) -> apsw.Connection:
    try:
        db.set_busy_timeout(_BUSY_MS)
        if db.pragma("application_id") != APPLICATION_ID:
            raise Refused(f"{path} is no store of answers")
        if int(db.pragma("user_version") or 0) not in {VERSION, WITHOUT_CHAIN}:
            raise Refused(f"{path} was made by another version of this program. Run that version")
        check_schema(db, path)
    except BaseException:
        db.close()
        raise
    return db
