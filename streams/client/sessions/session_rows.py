"""Stores the steps and the answers of sessions, in the file of stored results.

A session has a row in `sessions`, and one process at a time owns it. Each change names the owner's
run, so that a process which lost the row changes and shows nothing. The row has a state:

1. `asked`: the request that reserves may have been sent.
2. `reserved`: granted; nothing has begun.
3. `beginning`: the bytes of `begin` are stored, and may have been sent. Nothing has run.
4. `running`: the owner has read the answer `begun`. The mechanism may have read the data.
5. `closing`: the bytes of `settle` or `void` are stored, and may have been sent. No answer is
   added any more.
6. `over`: that step was answered.

An answer is added while the session runs, and synced to disk before the caller gets it. The last
level in `shown` is therefore never coarser than what the caller has seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from streams.client.releases.process_identity import has_ended, this_process
from streams.client.releases.store import (
    OtherRun,
    ResultMissing,
    ResultStore,
    StoredResult,
    delete_request,
)
from streams.clock import SystemClock

SessionState = Literal["asked", "reserved", "beginning", "running", "closing", "over"]
_NOBODY: Final = ""


class SessionRow(NamedTuple):
    """A session as it is stored.

    Attributes:
        decision: hash of the decision `reserved`; "" while it is unknown.
        step: bytes of the last step, None before the first.
        shown: the level of the last answer; None without answers.
    """

    state: SessionState
    decision: str
    step: bytes | None
    shown: str | None


class SessionRows:
    """The stored steps of one session, as one run of it sees them.

    Args:
        request: hash of the bytes of the request that reserves.
        run: name of the run; no other has it.
    """

    def __init__(self, store: ResultStore, request: str, run: str) -> None:
        self._store = store
        self._request = request
        self._run = run

    def enter(self) -> SessionRow | OtherRun:
        """Own the session, unless a process that may still run owns it; a new one is `asked`.

        A session that is over has no owner.
        """
        with self._store.transaction() as db:
            row = db.execute(
                "SELECT state, process, since FROM sessions WHERE request = ?", (self._request,)
            ).fetchone()
            if row is None:
                db.execute(
                    "INSERT INTO sessions VALUES (?, 'asked', '', NULL, ?, ?, ?)",
                    (self._request, this_process(), self._run, SystemClock().now() / 1000),
                )
            elif row[0] != "over":
                _, process, since = row
                if process != _NOBODY and not has_ended(process):
                    return OtherRun(process, since)
                db.execute(
                    "UPDATE sessions SET process = ?, run = ?, since = ? WHERE request = ?",
                    (this_process(), self._run, SystemClock().now() / 1000, self._request),
                )
            return self._row(db)

    def reserve(self, decision: str) -> None:
        """Store which decision reserved."""
        self._change("UPDATE sessions SET state = 'reserved', decision = ?", (decision,), "asked")

    def begin(self, step: bytes) -> None:
        """Store the bytes of `begin` before they are sent."""
        self._change("UPDATE sessions SET state = 'beginning', step = ?", (step,), "reserved")

    def undo_begin(self) -> None:
        """Store that `begin` was refused."""
        self._change("UPDATE sessions SET state = 'reserved', step = NULL", (), "beginning")

    def start(self) -> None:
        """Store that the mechanism may read the data, before it does."""
        self._change("UPDATE sessions SET state = 'running'", (), "beginning")

    def add(self, level: str, answer: bytes) -> None:
        """Store an answer before the caller gets it.

        Raises: ResultMissing: the session does not run any more, or another run owns it.
        """
        with self._store.transaction() as db:
            self._check(db, "running")
            (number,) = db.execute(
                "SELECT count(*) FROM shown WHERE request = ?", (self._request,)
            ).fetchone()
            db.execute(
                "INSERT INTO shown VALUES (?, ?, ?, ?)", (self._request, number, level, answer)
            )

    def close(self, make_step: Callable[[SessionRow], bytes]) -> bytes | None:
        """Store the bytes of the step that ends the session before they are sent; return them.

        A session that is closing already keeps its step. None where there is nothing to end.

        Args:
            make_step: returns the bytes for a session that is reserved, beginning or running.
        """
        with self._store.transaction() as db:
            self._check(db)
            row = self._row(db)
            if row.state in {"asked", "over"}:
                return None
            if row.state == "closing":
                return row.step
            step = make_step(row)
            self._set_step(db, step)
            return step

    def replace_step(self, step: bytes) -> None:
        """Store another step that ends the session, after the ledger has refused the last one."""
        with self._store.transaction() as db:
            self._check(db, "closing")
            self._set_step(db, step)

    def finish(self) -> None:
        """Store that the session is over."""
        self._change("UPDATE sessions SET state = 'over'", (), "beginning", "closing")

    def discard(self) -> None:
        """Delete a session whose mechanism never ran, and free its name."""
        with self._store.transaction() as db:
            self._check(db)
            db.execute("DELETE FROM sessions WHERE request = ?", (self._request,))
            delete_request(db, self._request)

    def leave(self) -> None:
        """Let another run own the session."""
        with self._store.transaction() as db:
            db.execute(
                "UPDATE sessions SET process = ? WHERE request = ? AND run = ?",
                (_NOBODY, self._request, self._run),
            )

    def answers(self) -> dict[str, StoredResult]:
        """Return the stored answers by level, in their order."""
        with self._store.transaction() as db:
            rows = db.execute(
                "SELECT level, answer FROM shown WHERE request = ? ORDER BY number",
                (self._request,),
            ).fetchall()
        return {level: StoredResult(answer) for level, answer in rows}

    def _row(self, db: sqlite3.Connection) -> SessionRow:
        state, decision, step = db.execute(
            "SELECT state, decision, step FROM sessions WHERE request = ?", (self._request,)
        ).fetchone()
        last = db.execute(
            "SELECT level FROM shown WHERE request = ? ORDER BY number DESC LIMIT 1",
            (self._request,),
        ).fetchone()
        return SessionRow(state, decision, step, None if last is None else last[0])

    def _set_step(self, db: sqlite3.Connection, step: bytes) -> None:
        db.execute(
            "UPDATE sessions SET state = 'closing', step = ? WHERE request = ?",
            (step, self._request),
        )

    def _change(self, update: str, values: tuple[object, ...], *states: SessionState) -> None:
        with self._store.transaction() as db:
            self._check(db, *states)
            db.execute(f"{update} WHERE request = ?", (*values, self._request))

    def _check(self, db: sqlite3.Connection, *states: SessionState) -> None:
        """Check that this run owns the session, and that it is in one of some states.

        Raises: ResultMissing.
        """
        row = db.execute(
            "SELECT state FROM sessions WHERE request = ? AND run = ?", (self._request, self._run)
        ).fetchone()
        if row is None:
            raise ResultMissing(
                f"{self._store.path} no longer has this session: the file was replaced or removed "
                "meanwhile. Nothing more is shown, and what was charged stays charged"
            )
        if states and row[0] not in states:
            raise ResultMissing(
                f"{self._store.path} has this session as {row[0]}: it was ended meanwhile. "
                "Nothing more is shown"
            )
