"""Answers of mechanisms, kept so that one grant is one run and every retry gets its answer.

One SQLite file, for this user alone. A row is keyed by the hash of the decision that granted the
run and by the hash of the request's bytes. It is inserted as `running` before the mechanism runs,
and becomes `done` with the answer before anybody sees the answer. What a crash leaves:

1. before the row is `running`: nothing ran. The row of `asked` lets an id that `release` itself
   made run later; of an id that the caller made nobody can tell who else asks with it.
2. while it is `running`: nobody has seen an answer. Once that process has ended, the mechanism
   may run again.
3. after it is `done`: every retry gets that answer.

A copy or an old backup of the file does not know what was shown since: never put one back.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from accountant.errors import BudgetError
from streams.client.answers.processes import has_ended, this_process
from streams.errors import Refused

VARIABLE: Final = "ACCOUNTANT_ANSWERS"
_BUSY_S: Final = 10.0
_FORMAT: Final = 1
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS answers (
    decision TEXT NOT NULL,
    request TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'failed', 'done')),
    process TEXT NOT NULL,
    since REAL NOT NULL,
    answer BLOB,
    receipt TEXT NOT NULL,
    PRIMARY KEY (decision, request)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS asked (request TEXT NOT NULL PRIMARY KEY, since REAL NOT NULL)
STRICT, WITHOUT ROWID;
PRAGMA user_version = {_FORMAT};
"""


class AnswerMissing(BudgetError):
    """The request was granted before, and no answer is stored here: nothing runs again."""


class StillRunning(BudgetError):
    """Another process, or another thread of this one, runs the mechanism of this grant."""


class Stored(NamedTuple):
    """An answer as it is stored."""

    answer: bytes


class Turn(NamedTuple):
    """The right to run the mechanism of one grant, once."""

    decision: str
    request: str
    process: str


class Busy(NamedTuple):
    """Whose run it is meanwhile.

    Attributes:
        since: seconds since 1970.
    """

    process: str
    since: float


class AnswerStore:
    """The answers of this user's grants.

    Args:
        path: of the SQLite file; without it `ACCOUNTANT_ANSWERS`, else a file in the user's
            directory of data (`XDG_DATA_HOME`).
    Raises: Refused: the file belongs to somebody else, or others may read or write it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(default_path() if path is None else path).absolute()

    def asking(self, request: str) -> None:
        """Note that `release` asks with an id that it has made itself."""
        with self._changing() as db:
            db.execute("INSERT OR IGNORE INTO asked VALUES (?, ?)", (request, time.time()))

    def refused(self, request: str) -> None:
        """Note that nothing was granted."""
        with self._changing() as db:
            db.execute("DELETE FROM asked WHERE request = ?", (request,))

    def found(self, request: str) -> Stored | None:
        """Return the stored answer of a request that the ledger remembers no more, if any."""
        with self._changing() as db:
            row = db.execute(
                "SELECT answer FROM answers WHERE request = ? AND state = 'done'", (request,)
            ).fetchone()
        return None if row is None else Stored(row[0])

    def take(
        self, decision: str, request: str, *, granted: bool, receipt: str = ""
    ) -> Turn | Stored | Busy:
        """Take the turn to run the mechanism of a grant, unless it has run or runs already.

        Args:
            decision: hash of the decision that is the grant.
            request: hash of the request's bytes.
            granted: the ledger has granted it just now, and so to nobody else.
            receipt: of the decision, as JSON.
        Raises: AnswerMissing.
        """
        process, now = this_process(), time.time()
        with self._changing() as db:
            row = db.execute(
                "SELECT state, process, since, answer FROM answers"
                " WHERE decision = ? AND request = ?",
                (decision, request),
            ).fetchone()
            own = db.execute("DELETE FROM asked WHERE request = ?", (request,)).rowcount > 0
            if row is None:
                if not granted and not own:
                    raise AnswerMissing(_missing(self.path))
                self._check_no_other(db, decision, request)
                db.execute(
                    "INSERT INTO answers VALUES (?, ?, 'running', ?, ?, NULL, ?)",
                    (decision, request, process, now, receipt),
                )
                return Turn(decision, request, process)
            state, whose, since, answer = row
            if state == "done":
                return Stored(answer)
            if state == "running" and not has_ended(whose):
                return Busy(whose, since)
            db.execute(
                "UPDATE answers SET state = 'running', process = ?, since = ?"
                " WHERE decision = ? AND request = ?",
                (process, now, decision, request),
            )
            return Turn(decision, request, process)

    def _check_no_other(self, db: sqlite3.Connection, decision: str, request: str) -> None:
        """Check that no other grant of the same request has run, or runs.

        A ledger that was put back from a copy grants an id again: what ran for it was charged by
        the grant that is lost.
        Raises: AnswerMissing.
        """
        ran = db.execute(
            "SELECT 1 FROM answers WHERE request = ? AND decision <> ? AND state <> 'failed'",
            (request, decision),
        ).fetchone()
        if ran is not None:
            what = f"{self.path} holds the run of this request for another decision"
            raise AnswerMissing(f"{what}: it does not run again. Ask with a new id")

    def keep(self, turn: Turn, answer: bytes) -> None:
        """Store an answer, on the disk, before anybody sees it."""
        self._end(turn, "done", answer)

    def failed(self, turn: Turn) -> None:
        """Note that the run has ended without an answer: it may run again."""
        self._end(turn, "failed", None)

    def _end(self, turn: Turn, state: str, answer: bytes | None) -> None:
        with self._changing() as db:
            changed = db.execute(
                "UPDATE answers SET state = ?, answer = ? WHERE decision = ? AND request = ?"
                " AND state = 'running' AND process = ?",
                (state, answer, *turn),
            ).rowcount
        if changed != 1:
            what = f"{self.path} no longer holds this run: it was replaced or removed meanwhile"
            raise AnswerMissing(f"{what}; the answer is not shown")

    def receipts(self) -> list[str]:
        """Return the receipts of the grants whose answers are kept here, as JSON, oldest first."""
        with self._changing() as db:
            rows = db.execute("SELECT receipt FROM answers WHERE receipt <> '' ORDER BY since")
            return [receipt for (receipt,) in rows]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one synced transaction."""
        self._make()
        db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = FULL")
            self._prepare(db)
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise Refused(f"the store of answers {self.path} cannot be used: {error}") from error
        finally:
            db.close()

    def _prepare(self, db: sqlite3.Connection) -> None:
        (made_by,) = db.execute("PRAGMA user_version").fetchone()
        if made_by > _FORMAT:
            raise Refused(f"{self.path} was made by a newer version: run that one")
        if made_by < _FORMAT:
            (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if tables:
                raise Refused(f"{self.path} is a database of something else: name another file")
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")

    def _make(self) -> None:
        """Make the file if it is missing, and check whose it is.

        Raises: Refused.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not truncated, and private from its first moment.
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            what = f"the store of answers {self.path} cannot be opened: {error.strerror}"
            raise Refused(f"{what}; name another by `store=` or {VARIABLE}") from error
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"the store of answers {self.path} is no file")
        if status.st_uid != os.geteuid():
            raise Refused(f"the store of answers {self.path} belongs to another user")
        if status.st_mode & 0o077:
            raise Refused(f"others may read or write {self.path}: run `chmod 600 {self.path}`")


def default_path() -> Path:
    """Return where answers are kept unless a program says otherwise.

    Raises: Refused: the user has no home.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    try:
        directory = Path(data) if data else Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise Refused(f"this user has no home: name a file by `store=` or {VARIABLE}") from error
    return directory / "streaming-privacy-accountant" / "answers.db"


def _missing(path: Path) -> str:
    return (
        f"this request was granted before, and {path} holds no answer to it: it may have run "
        "elsewhere, so it does not run again. Ask with a new id; that is charged again"
    )
