"""Stores results of mechanisms, so that a grant runs once and every retry gets its result.

The store is one SQLite file that only its user can read. A request has a row in `requests` before
it is sent. A row in `answers` has two keys: the hash of the granting decision and the hash of the
request's bytes. It is inserted as `running` before the mechanism runs. It becomes `done`, with the
result, before the caller gets the result. After a crash:

1. No row in `answers`: nothing ran. The row in `requests` lets an id that `release` itself made
   run later. An id that the caller made may be in use elsewhere, so it does not run.
2. `running`: nobody got a result. Once that process has ended, the mechanism may run again.
3. `done`: every retry gets the stored result.
4. `unstored`: the caller got a result that could not be encoded, or written. It never runs again.
   The process that has it may store it later: it is `done` then.

A name (`once`) is bound to a request's bytes in the transaction that records the request. Every
release by that name sends the same bytes, which are charged once. A refusal frees the name. The
ledger's random id is stored with the name if it is known: a file may be removed, and another
ledger created at its path, or a ledger may be at another address, where the name is the same.

Sessions have tables of their own: `session_rows`.

Never restore an old copy of the file: it does not know which results were returned since.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from accountant.errors import BudgetError, RequestInvalid
from accountant.foreign_text import HIDDEN
from accountant.likeness import most_alike
from streams.client.releases.process_identity import has_ended, this_process
from streams.client.releases.unsaved import UnsavedResult, unsaved_of
from streams.client.unconfirmed import SimilarName
from streams.clock import SystemClock
from streams.error_words import write_words
from streams.errors import Refused
from streams.files.private_files import check_private, make_private
from streams.variables import read_variable

PATH_VARIABLE: Final = "ACCOUNTANT_ANSWERS"
_BUSY_S: Final = 10.0
_FORMAT: Final = 5
_WITHOUT_SESSIONS: Final = 4
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
CREATE TABLE IF NOT EXISTS sessions (
    request TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL CHECK (
        state IN ('asked', 'reserved', 'beginning', 'running', 'closing', 'over')
    ),
    decision TEXT NOT NULL DEFAULT '',
    step BLOB,
    process TEXT NOT NULL,
    run TEXT NOT NULL,
    since REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shown (
    request TEXT NOT NULL,
    number INTEGER NOT NULL,
    level TEXT NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (request, number)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = {_FORMAT};
"""


class ResultMissing(BudgetError):
    """The request was granted before, but its result is not in this store: nothing runs again."""


class NameTaken(BudgetError):
    """The name of a release belongs to another claim or ledger; nothing was charged."""


class StillRunning(BudgetError):
    """Another process or thread is running the mechanism of this grant."""


class StoredResult(NamedTuple):
    """A result as it is stored."""

    answer: bytes


class Turn(NamedTuple):
    """The right to run the mechanism of one grant, once."""

    decision: str
    request: str
    run: str


class SentRequest(NamedTuple):
    """A request, as the store records it before it is sent.

    Attributes:
        request: hash of its bytes.
        ledger: address of the ledger.
        claim: in words, with its unit, neighbours and engine.
    """

    request: str
    request_id: str
    ledger: str
    dataset: str
    analyst: str
    claim: str
    purpose: str


class ResultName(NamedTuple):
    """A name of a result (`once`).

    Attributes:
        text: in Unicode's composed form.
        is_meant: the caller means it, although it is nearly another one.
    """

    text: str
    is_meant: bool = False


class OpenRequest(NamedTuple):
    """A request without a stored result.

    Attributes:
        since: when it was sent, in seconds since 1970.
        granted: the ledger has granted it; False if this store does not know.
    """

    asked: SentRequest
    since: float
    granted: bool


class OtherRun(NamedTuple):
    """A run of the same grant elsewhere.

    Attributes:
        since: seconds since 1970.
    """

    process: str
    since: float


class ResultStore:
    """The stored results of a user's grants.

    Args:
        path: of the SQLite file; by default `ACCOUNTANT_ANSWERS`, else a file in the user's data
            directory (`XDG_DATA_HOME`).
    Raises: Refused: the file belongs to another user, or other users may read or write it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(default_path() if path is None else path).absolute()
        self._unsaved = unsaved_of(Path(os.path.realpath(self.path)))

    def record_request(self, asked: SentRequest, *, own: bool) -> None:
        """Record a request before it is sent.

        Args:
            own: `release` made the id itself, so its grant is for this run.
        """
        with self.transaction() as db:
            _insert_request(db, asked, own=own)

    def bind_name(
        self, wanted: ResultName, asked: SentRequest, body: bytes, ledger_id: str = ""
    ) -> bytes:
        """Bind a name to a request before it is sent, unless the name is bound already.

        A name belongs to one ledger, dataset and analyst. A ledger that has moved, or that several
        addresses lead to, is known by its id.

        Args:
            ledger_id: the random id of the ledger; empty if unknown.
        Returns: the body of the request that the name is bound to.

        Raises:
            NameTaken: the name has another claim or another ledger.
            SimilarName: it is nearly another one. RequestInvalid: it is new, and has a character
                that nobody sees.
        """
        with self.transaction() as db:
            name, ledger = _bound_name(db, asked, wanted, ledger_id)
            key = (ledger, asked.dataset, asked.analyst, name)
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
                f"the name {name!r} belongs to a result of ledger {bound_id}, which was at "
                f"{asked.ledger} before. Ledger {ledger_id} is there now. Nothing was charged. "
                "Choose another name for this result"
            )
        if claim != asked.claim:
            raise NameTaken(
                f"the name {name!r} belongs to {claim}, of dataset {asked.dataset}, and this call "
                f"has {asked.claim}. Nothing was charged. Choose another name for this result"
            )
        return bytes(bound_body)

    def unbind_name(self, request: str) -> None:
        """Free the name of a request: the next release by that name is a new request."""
        with self.transaction() as db:
            db.execute("DELETE FROM names WHERE request = ?", (request,))

    def discard_request(self, request: str) -> None:
        """Delete a request that was not granted, and free its name."""
        with self.transaction() as db:
            delete_request(db, request)

    def is_repeated(self, asked: SentRequest) -> bool:
        """Whether the same claim was released before on the ledger's dataset for the same purpose.

        Another ledger may have a dataset of the same name.
        """
        with self.transaction() as db:
            rows = db.execute(
                "SELECT DISTINCT purpose FROM requests"
                " WHERE ledger = ? AND dataset = ? AND claim = ? AND request <> ?",
                (asked.ledger, asked.dataset, asked.claim, asked.request),
            ).fetchall()
        purpose = _composed(asked.purpose)
        return any(_composed(other) == purpose for (other,) in rows)

    def open_requests(self) -> list[OpenRequest]:
        """Return the requests that may be charged and have no stored result, oldest first.

        Reservations are left out: the ledger lists the open ones.
        """
        with self.transaction() as db:
            rows = db.execute(
                "SELECT r.*, max(a.decision IS NOT NULL) FROM requests r LEFT JOIN answers a"
                " ON a.request = r.request"
                " WHERE r.request NOT IN (SELECT request FROM sessions) GROUP BY r.request"
                " HAVING NOT max(coalesce(a.state IN ('done', 'unstored'), 0)) ORDER BY r.since"
            ).fetchall()
        return [OpenRequest(SentRequest(*row[:7]), row[7], bool(row[9])) for row in rows]

    def get_result(self, request: str) -> StoredResult | None:
        """Return the stored result of a request, if any.

        Raises: ResultMissing: it was returned once, but could not be stored.
        """
        if (saved := self._save_now(request)) is not None:
            return saved
        with self.transaction() as db:
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
        """Return the hash of the decision that granted a request, None if unknown."""
        with self.transaction() as db:
            row = db.execute(
                "SELECT decision FROM answers WHERE request = ? ORDER BY state = 'done' DESC",
                (request,),
            ).fetchone()
        return None if row is None else str(row[0])

    def take_turn(
        self, turn: Turn, *, granted: bool, receipt: str = "", after_crash: bool = True
    ) -> Turn | StoredResult | OtherRun:
        """Take the right to run the mechanism of a grant, unless it has run or is running.

        Args:
            turn: hash of the granting decision, hash of the request's bytes, name of the run.
            granted: the ledger has granted the request to this very call.
            receipt: of the decision, as JSON.
            after_crash: the mechanism may run again if its process ended while it ran.
        Raises: ResultMissing.
        """
        decision, request, run = turn
        if (saved := self._save_now(request, decision)) is not None:
            return saved
        process, now = this_process(), SystemClock().now() / 1000
        with self.transaction() as db:
            row = db.execute(
                "SELECT state, process, since, answer, run FROM answers"
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
            state, runner, since, answer, earlier = row
            if state == "running" and earlier in self._unsaved.failed_runs:
                state = "failed" if self._unsaved.failed_runs[earlier] else "unstored"
            if state == "done":
                return StoredResult(answer)
            if state == "unstored":
                raise ResultMissing(_UNSTORED)
            if state == "running" and not has_ended(runner):
                return OtherRun(runner, since)
            if state == "running" and not after_crash:
                raise ResultMissing(_UNSTORED)
            db.execute(
                "UPDATE answers SET state = 'running', process = ?, run = ?, since = ?"
                " WHERE decision = ? AND request = ?",
                (process, run, now, decision, request),
            )
            return turn

    def _check_no_other_grant(self, db: sqlite3.Connection, decision: str, request: str) -> None:
        """Check that no other grant of the same request has run or is running.

        A ledger that was restored from a backup grants an id again. The first run was charged by
        the grant that the backup lost.
        Raises: ResultMissing.
        """
        ran = db.execute(
            "SELECT 1 FROM answers WHERE request = ? AND decision <> ? AND state <> 'failed'",
            (request, decision),
        ).fetchone()
        if ran is not None:
            what = f"{self.path} has a run of this request for another decision"
            raise ResultMissing(f"{what}, so it does not run again. Ask with a new id")

    def store_result(self, turn: Turn, answer: bytes) -> None:
        """Write a result to disk, before the caller gets it.

        Raises: Refused: the disk does not take it. ResultMissing: the run is not in the file.
        """
        self._finish_run(turn, "done", answer)

    def mark_unstorable(self, turn: Turn, answer: bytes | None = None) -> None:
        """Record that the caller is about to get a result that cannot be stored.

        Args:
            answer: the encoded result, which this process keeps: a retry stores it.
        Raises: Refused: the disk does not take this either, so nobody may get the result.
        """
        if answer is not None:
            kept = UnsavedResult(turn.decision, turn.run, answer, returned=False)
            self._unsaved.keep(turn.request, kept)
        self._finish_run(turn, "unstored", None)
        if answer is not None:
            self._unsaved.keep(turn.request, kept._replace(returned=True))

    def _save_now(self, request: str, decision: str | None = None) -> StoredResult | None:
        """Store a result that this process has, and return it; None if it has none.

        Args:
            decision: of the result; None for any.
        Raises: Refused: the store still cannot be written, and nobody has got the result.
        """
        kept = self._unsaved.find(request)
        if kept is None or decision not in {None, kept.decision}:
            return None
        try:
            with self.transaction() as db:
                changed = db.execute(
                    "UPDATE answers SET state = 'done', answer = ? WHERE decision = ?"
                    " AND request = ? AND run = ? AND state <> 'done'",
                    (kept.answer, kept.decision, request, kept.run),
                ).rowcount
        except Refused:
            if not kept.returned:
                raise
            return StoredResult(kept.answer)
        self._unsaved.drop(request)
        # Another run may have taken the turn of one that nobody got a result of.
        return StoredResult(kept.answer) if changed == 1 else None

    def mark_failed(self, request: str, run: str, *, again: bool = True) -> None:
        """Record that a run ended without a result, if it had started.

        Args:
            again: it may run again, since it has released nothing.
        """
        try:
            with self.transaction() as db:
                db.execute(
                    "UPDATE answers SET state = ? WHERE request = ? AND run = ?"
                    " AND state = 'running'",
                    ("failed" if again else "unstored", request, run),
                )
        except Refused:
            self._unsaved.failed_runs[run] = again
            raise

    def _finish_run(self, turn: Turn, state: str, answer: bytes | None) -> None:
        with self.transaction() as db:
            changed = db.execute(
                "UPDATE answers SET state = ?, answer = ? WHERE decision = ? AND request = ?"
                " AND state = 'running' AND run = ?",
                (state, answer, *turn),
            ).rowcount
        if changed != 1:
            what = f"{self.path} no longer has this run: the file was replaced or removed meanwhile"
            raise ResultMissing(f"{what}. The result is not returned")

    def receipts(self) -> list[str]:
        """Return the receipts of the grants in this store, as JSON, oldest first."""
        with self.transaction() as db:
            rows = db.execute("SELECT receipt FROM answers WHERE receipt <> '' ORDER BY since")
            return [receipt for (receipt,) in rows]

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, synced to disk."""
        self._create_file()
        db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            try:
                self._prepare_schema(db)
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # a full disk has ended it already
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            what = f"the result store {self.path} cannot be used: {write_words(error, self.path)}"
            raise Refused(what) from error
        finally:
            db.close()

    def _prepare_schema(self, db: sqlite3.Connection) -> None:
        (made_by,) = db.execute("PRAGMA user_version").fetchone()
        if made_by > _FORMAT:
            raise Refused(
                f"{self.path} was made by a newer version of this program. Run that version"
            )
        if made_by == _WITHOUT_LEDGER_IDS:
            db.execute("ALTER TABLE names ADD COLUMN ledger_id TEXT NOT NULL DEFAULT ''")
        if made_by < _FORMAT:
            (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if tables and made_by not in (_WITHOUT_LEDGER_IDS, _WITHOUT_SESSIONS):
                what = "is a database of an earlier development version or of another program"
                raise Refused(f"{self.path} {what}. Choose another file")
            for statement in _SCHEMA.split(";"):
                db.execute(statement)

    def _create_file(self) -> None:
        """Create the file if it is missing, and check its owner and mode.

        An existing file is not opened here: a close would drop the locks that other threads'
        transactions hold on it for this whole process.

        Raises: Refused.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(Path(os.path.realpath(self.path)))
            status = self.path.stat()
        except OSError as error:
            what = f"the result store {self.path} cannot be opened: {write_words(error, self.path)}"
            raise Refused(f"{what}. Choose another with `store=` or {PATH_VARIABLE}") from error
        if not stat.S_ISREG(status.st_mode):
            raise Refused(
                f"the result store {self.path} is not a regular file. Choose another file"
            )
        if status.st_uid != os.geteuid():
            raise Refused(
                f"the result store {self.path} belongs to another user. Choose another file"
            )
        check_private(self.path, status)


def ledger_name(address: str) -> str:
    """Return the store's name for the ledger of an address: a file has one name for all links."""
    scheme, slashes, path = address.partition("sqlite:///")
    return f"{slashes}{os.path.realpath(path)}" if slashes and not scheme else address


def default_path() -> Path:
    """Return the default path of the store.

    Raises: Refused: the user has no home directory.
    """
    named = read_variable(os.environ, PATH_VARIABLE)
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    try:
        directory = Path(data) if data else Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise Refused(
            f"this user has no home directory. Choose a file with `store=` or {PATH_VARIABLE}"
        ) from error
    return directory / "streaming-privacy-accountant" / "answers.db"


_UNSTORED: Final = (
    "this request was granted before. Its result was returned then but could not be stored, or its "
    "training ended after the first step. It does not run again. Ask with a new id, which is "
    "charged again"
)


def _composed(text: str) -> str:
    """Return a text in the form of Unicode in which it is compared."""
    return unicodedata.normalize("NFC", text)


def _bound_name(
    db: sqlite3.Connection, asked: SentRequest, wanted: ResultName, ledger_id: str
) -> tuple[str, str]:
    """Return a name as it is bound, and the address of its ledger then; of a new one, as it is.

    The name is perhaps in another form of Unicode, and the ledger at another address.

    Raises: SimilarName. RequestInvalid.
    """
    rows = db.execute(
        "SELECT name, ledger FROM names WHERE dataset = ? AND analyst = ?"
        " AND (ledger = ? OR (ledger_id = ? AND ledger_id <> ''))"
        # What is found last counts: this ledger's name, and of two that at this address.
        " ORDER BY ledger_id = ?, ledger = ?",
        (asked.dataset, asked.analyst, asked.ledger, ledger_id, ledger_id, asked.ledger),
    )
    by_text = {_composed(name): (str(name), str(ledger)) for name, ledger in rows}
    text = wanted.text
    if text in by_text:
        return by_text[text]
    if HIDDEN.search(text):
        raise RequestInvalid("once", "must have no control or invisible character", text)
    similar = "" if wanted.is_meant else most_alike(text, by_text, edits=False)
    if similar:
        what = (
            f"the name {text!r} is nearly {similar!r}, by which dataset {asked.dataset} has a "
            f"result. Nothing was charged. Pass once={similar!r} if that is meant, and new=True if "
            "another result is"
        )
        raise SimilarName("once", text, similar, what)
    return text, asked.ledger


def delete_request(db: sqlite3.Connection, request: str) -> None:
    """Delete a request, and free its name."""
    db.execute("DELETE FROM requests WHERE request = ?", (request,))
    db.execute("DELETE FROM names WHERE request = ?", (request,))


def _insert_request(db: sqlite3.Connection, asked: SentRequest, *, own: bool) -> None:
    row = (*asked, SystemClock().now() / 1000, own)
    db.execute("INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _missing_message(path: Path) -> str:
    return (
        f"this request was granted before, and {path} has no result of it. It may have run "
        "elsewhere, so it does not run again. Ask with a new id, which is charged again"
    )
