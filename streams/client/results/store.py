"""Answers of mechanisms, kept so that one grant is one run and every retry gets its answer.

One SQLite file, for this user alone. Each request has a row of `requests` before it is sent. A row
of `answers` is keyed by the hash of the decision that granted the run and by the hash of the
request's bytes. It is inserted as `running` before the mechanism runs, and becomes `done` with the
answer before anybody sees the answer. What a crash leaves:

1. before there is a row of `answers`: nothing ran. The row of `requests` lets an id that `release`
   itself made run later; of an id that the caller made nobody can tell who else asks with it.
2. while it is `running`: nobody has seen an answer. Once that run has ended, the mechanism may run
   again.
3. after it is `done`: every retry gets that answer.
4. after it is `unstored`: the caller got an answer that no bytes could hold. It never runs again.

A name of `once` is bound to a request's bytes in the transaction that notes the request. Whoever
comes with the same name sends the same bytes, which are charged once. A refusal frees the name.
With it stands the random id of the ledger, where that is known: a file may be removed, and another
ledger made at its path.

A copy or an old backup of the file does not know what was shown since: never put one back.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from accountant.errors import BudgetError
from streams.client.results.process_identity import has_ended, this_process
from streams.clock import SystemClock
from streams.errors import Refused

PATH_VARIABLE: Final = "ACCOUNTANT_ANSWERS"
_BUSY_S: Final = 10.0
_FORMAT: Final = 4
_WITHOUT_LEDGER_IDS: Final = 3
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS answers (
    decision TEXT NOT NULL,
    request TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'failed', 'done', 'unstored')),
    process TEXT NOT NULL,
    run TEXT NOT NULL,
    since REAL NOT NULL,
    answer BLOB,
    receipt TEXT NOT NULL,
    PRIMARY KEY (decision, request)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
    request TEXT NOT NULL PRIMARY KEY,
    request_id TEXT NOT NULL,
    ledger TEXT NOT NULL,
    dataset TEXT NOT NULL,
    analyst TEXT NOT NULL,
    claim TEXT NOT NULL,
    purpose TEXT NOT NULL,
    since REAL NOT NULL,
    own INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS names (
    ledger TEXT NOT NULL,
    dataset TEXT NOT NULL,
    analyst TEXT NOT NULL,
    name TEXT NOT NULL,
    claim TEXT NOT NULL,
    request TEXT NOT NULL,
    body BLOB NOT NULL,
    ledger_id TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (ledger, dataset, analyst, name)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = {_FORMAT};
"""


class ResultMissing(BudgetError):
    """The request was granted before, and no answer is stored here: nothing runs again."""


class NameTaken(BudgetError):
    """The name of a release stands for another claim or ledger: nothing was asked or charged."""


class StillRunning(BudgetError):
    """Another process, or another thread of this one, runs the mechanism of this grant."""


class StoredResult(NamedTuple):
    """An answer as it is stored."""

    answer: bytes


class Turn(NamedTuple):
    """The right to run the mechanism of one grant, once."""

    decision: str
    request: str
    run: str


class SentRequest(NamedTuple):
    """A request as the store notes it before it is sent.

    Attributes:
        request: hash of its bytes.
        ledger: the address of the ledger that is asked.
        claim: with its unit, its neighbours and its engine, for people.
    """

    request: str
    request_id: str
    ledger: str
    dataset: str
    analyst: str
    claim: str
    purpose: str


class OpenRequest(NamedTuple):
    """A request that was asked, and has no answer here.

    Attributes:
        since: when it was asked, in seconds since 1970.
        granted: the ledger has granted it; False where this store does not know.
    """

    asked: SentRequest
    since: float
    granted: bool


class OtherRun(NamedTuple):
    """Whose run it is meanwhile.

    Attributes:
        since: seconds since 1970.
    """

    process: str
    since: float


class ResultStore:
    """The answers of this user's grants.

    Args:
        path: of the SQLite file; without it `ACCOUNTANT_ANSWERS`, else a file in the user's
            directory of data (`XDG_DATA_HOME`).
    Raises: Refused: the file belongs to somebody else, or others may read or write it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(default_path() if path is None else path).absolute()

    def record_request(self, asked: SentRequest, *, own: bool) -> None:
        """Note that `release` is about to ask.

        Args:
            own: it has made the id itself, so that a grant of it is for its own run.
        """
        with self._transaction() as db:
            _insert_request(db, asked, own=own)

    def bind_name(self, name: str, asked: SentRequest, body: bytes, ledger_id: str = "") -> bytes:
        """Bind a name to a request that is about to be asked, unless it is bound already.

        The name is of one ledger, dataset and analyst.

        Args:
            ledger_id: the random id of the ledger; empty where it is not known.
        Returns: the body of the request that it is bound to.
        Raises: NameTaken: that one has another claim, or another ledger has decided it.
        """
        key = (asked.ledger, asked.dataset, asked.analyst, name)
        with self._transaction() as db:
            row = db.execute(
                "SELECT claim, body, ledger_id FROM names"
                " WHERE ledger = ? AND dataset = ? AND analyst = ? AND name = ?",
                key,
            ).fetchone()
            if row is None:
                _insert_request(db, asked, own=True)
                bound = (*key, asked.claim, asked.request, body, ledger_id)
                db.execute("INSERT INTO names VALUES (?, ?, ?, ?, ?, ?, ?, ?)", bound)
                return body
            claim, bound_body, bound_id = row
            if ledger_id and not bound_id:
                db.execute(
                    "UPDATE names SET ledger_id = ?"
                    " WHERE ledger = ? AND dataset = ? AND analyst = ? AND name = ?",
                    (ledger_id, *key),
                )
        if ledger_id and bound_id and bound_id != ledger_id:
            raise NameTaken(
                f"the name {name!r} stands for an answer of ledger {bound_id}, which was at "
                f"{asked.ledger} before; ledger {ledger_id} is there now: nothing was asked or "
                "charged. Give this answer another name"
            )
        if claim != asked.claim:
            raise NameTaken(
                f"the name {name!r} stands for {claim}, of dataset {asked.dataset}, and this call "
                f"asks {asked.claim}: nothing was asked or charged. Give this answer another name"
            )
        return bytes(bound_body)

    def unbind_name(self, request: str) -> None:
        """Free the name of a request: its next release asks anew."""
        with self._transaction() as db:
            db.execute("DELETE FROM names WHERE request = ?", (request,))

    def discard_request(self, request: str) -> None:
        """Note that nothing was granted."""
        with self._transaction() as db:
            db.execute("DELETE FROM requests WHERE request = ?", (request,))
            db.execute("DELETE FROM names WHERE request = ?", (request,))

    def is_repeated(self, asked: SentRequest) -> bool:
        """Tell whether the same claim was released before on the dataset, for the same purpose."""
        with self._transaction() as db:
            row = db.execute(
                "SELECT 1 FROM requests"
                " WHERE dataset = ? AND claim = ? AND purpose = ? AND request <> ?",
                (asked.dataset, asked.claim, asked.purpose, asked.request),
            ).fetchone()
        return row is not None

    def open_requests(self) -> list[OpenRequest]:
        """Return the requests that may be charged and have no answer here, oldest first."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT r.*, max(a.decision IS NOT NULL) FROM requests r LEFT JOIN answers a"
                " ON a.request = r.request GROUP BY r.request"
                " HAVING NOT max(coalesce(a.state IN ('done', 'unstored'), 0)) ORDER BY r.since"
            ).fetchall()
        return [OpenRequest(SentRequest(*row[:7]), row[7], bool(row[9])) for row in rows]

    def get_result(self, request: str) -> StoredResult | None:
        """Return the stored answer of a request, if any.

        Raises: ResultMissing: it was returned once, and could not be stored.
        """
        with self._transaction() as db:
            row = db.execute(
                "SELECT state, answer FROM answers"
                " WHERE request = ? AND state IN ('done', 'unstored')",
                (request,),
            ).fetchone()
        if row is None:
            return None
        state, answer = row
        if state == "unstored":
            raise ResultMissing(_UNSTORED)
        return StoredResult(answer)

    def grant_hash(self, request: str) -> str | None:
        """Return the hash of the decision that has granted a request here, None without one."""
        with self._transaction() as db:
            row = db.execute(
                "SELECT decision FROM answers WHERE request = ? ORDER BY state = 'done' DESC",
                (request,),
            ).fetchone()
        return None if row is None else str(row[0])

    def take_turn(
        self, turn: Turn, *, granted: bool, receipt: str = ""
    ) -> Turn | StoredResult | OtherRun:
        """Take the turn to run the mechanism of a grant, unless it has run or runs already.

        Args:
            turn: the one to take: by the hash of the decision that is the grant, the hash of the
                request's bytes and the name of the run.
            granted: the ledger has granted it just now, and so to nobody else.
            receipt: of the decision, as JSON.
        Raises: ResultMissing.
        """
        decision, request, run = turn
        process, now = this_process(), SystemClock().now() / 1000
        with self._transaction() as db:
            row = db.execute(
                "SELECT state, process, since, answer FROM answers"
                " WHERE decision = ? AND request = ?",
                (decision, request),
            ).fetchone()
            asked = "UPDATE requests SET own = 0 WHERE request = ? AND own = 1"
            own = db.execute(asked, (request,)).rowcount > 0
            if row is None:
                if not granted and not own:
                    raise ResultMissing(_missing_message(self.path))
                self._check_no_other_grant(db, decision, request)
                db.execute(
                    "INSERT INTO answers VALUES (?, ?, 'running', ?, ?, ?, NULL, ?)",
                    (decision, request, process, run, now, receipt),
                )
                return turn
            state, runner, since, answer = row
            if state == "done":
                return StoredResult(answer)
            if state == "unstored":
                raise ResultMissing(_UNSTORED)
            if state == "running" and not has_ended(runner):
                return OtherRun(runner, since)
            db.execute(
                "UPDATE answers SET state = 'running', process = ?, run = ?, since = ?"
                " WHERE decision = ? AND request = ?",
                (process, run, now, decision, request),
            )
            return turn

    def _check_no_other_grant(self, db: sqlite3.Connection, decision: str, request: str) -> None:
        """Check that no other grant of the same request has run, or runs.

        A ledger that was put back from a copy grants an id again: what ran for it was charged by
        the grant that is lost.
        Raises: ResultMissing.
        """
        ran = db.execute(
            "SELECT 1 FROM answers WHERE request = ? AND decision <> ? AND state <> 'failed'",
            (request, decision),
        ).fetchone()
        if ran is not None:
            what = f"{self.path} holds the run of this request for another decision"
            raise ResultMissing(f"{what}: it does not run again. Ask with a new id")

    def store_result(self, turn: Turn, answer: bytes) -> None:
        """Store an answer, on the disk, before anybody sees it."""
        self._finish_run(turn, "done", answer)

    def mark_unstorable(self, turn: Turn) -> None:
        """Note that the caller is about to get an answer that cannot be stored."""
        self._finish_run(turn, "unstored", None)

    def mark_failed(self, request: str, run: str) -> None:
        """Note that a run has ended without an answer, if it has begun: it may run again."""
        with self._transaction() as db:
            db.execute(
                "UPDATE answers SET state = 'failed' WHERE request = ? AND run = ?"
                " AND state = 'running'",
                (request, run),
            )

    def _finish_run(self, turn: Turn, state: str, answer: bytes | None) -> None:
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE answers SET state = ?, answer = ? WHERE decision = ? AND request = ?"
                " AND state = 'running' AND run = ?",
                (state, answer, *turn),
            ).rowcount
        if changed != 1:
            what = f"{self.path} no longer holds this run: it was replaced or removed meanwhile"
            raise ResultMissing(f"{what}; the answer is not shown")

    def receipts(self) -> list[str]:
        """Return the receipts of the grants whose answers are kept here, as JSON, oldest first."""
        with self._transaction() as db:
            rows = db.execute("SELECT receipt FROM answers WHERE receipt <> '' ORDER BY since")
            return [receipt for (receipt,) in rows]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one synced transaction."""
        self._create_file()
        db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            try:
                self._prepare_schema(db)
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise Refused(f"the store of answers {self.path} cannot be used: {error}") from error
        finally:
            db.close()

    def _prepare_schema(self, db: sqlite3.Connection) -> None:
        (made_by,) = db.execute("PRAGMA user_version").fetchone()
        if made_by > _FORMAT:
            raise Refused(f"{self.path} was made by a newer version: run that one")
        if made_by == _WITHOUT_LEDGER_IDS:
            db.execute("ALTER TABLE names ADD COLUMN ledger_id TEXT NOT NULL DEFAULT ''")
            db.execute(f"PRAGMA user_version = {_FORMAT}")
        elif made_by < _FORMAT:
            (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if tables:
                what = "is of an earlier development version, or a database of something else"
                raise Refused(f"{self.path} {what}: name another file")
            for statement in _SCHEMA.split(";"):
                db.execute(statement)

    def _create_file(self) -> None:
        """Make the file if it is missing, and check whose it is.

        Raises: Refused.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not truncated, and private from its first moment.
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            what = f"the store of answers {self.path} cannot be opened: {error.strerror}"
            raise Refused(f"{what}; name another by `store=` or {PATH_VARIABLE}") from error
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


def ledger_name(address: str) -> str:
    """Return what a store calls the ledger of an address: a file is the same by every link."""
    scheme, slashes, path = address.partition("sqlite:///")
    return f"{slashes}{os.path.realpath(path)}" if slashes and not scheme else address


def default_path() -> Path:
    """Return where answers are kept unless a program says otherwise.

    Raises: Refused: the user has no home.
    """
    named = os.environ.get(PATH_VARIABLE)
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    try:
        directory = Path(data) if data else Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise Refused(
            f"this user has no home: name a file by `store=` or {PATH_VARIABLE}"
        ) from error
    return directory / "streaming-privacy-accountant" / "answers.db"


_UNSTORED: Final = (
    "this request was granted before, and its answer was returned then but could not be stored: "
    "it does not run again. Ask with a new id; that is charged again"
)


def _insert_request(db: sqlite3.Connection, asked: SentRequest, *, own: bool) -> None:
    row = (*asked, SystemClock().now() / 1000, own)
    db.execute("INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _missing_message(path: Path) -> str:
    return (
        f"this request was granted before, and {path} holds no answer to it: it may have run "
        "elsewhere, so it does not run again. Ask with a new id; that is charged again"
    )
