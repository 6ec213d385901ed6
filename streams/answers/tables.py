"""The tables of answers in SQLite: the store of a ledger in a file, and the index of a topic."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import apsw

from streams.answers.chain import (
    CHAIN_TABLE,
    ChainEnd,
    add_entries,
    first_head,
    is_linked,
    read_chain,
)
from streams.answers.store import LogPlace, NewAnswer, StepKind, StoredAnswer
from streams.errors import Refused

APPLICATION_ID: Final = 0x5042414E  # "PBAN"
VERSION: Final = 2
WITHOUT_CHAIN: Final = 1
"""The version whose stores have no chain. It is added when a curator opens one."""
_COLUMNS: Final = "partition, number, grant_hash, dataset, analyst, request_id, value"
_SCHEMA: Final = """
CREATE TABLE answers (
    partition INTEGER NOT NULL,
    number INTEGER NOT NULL,
    grant_hash TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL,
    analyst TEXT NOT NULL,
    request_id TEXT NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (partition, number)
) STRICT;
CREATE INDEX answers_of_datasets ON answers (dataset, number);
CREATE INDEX answers_to_requests ON answers (request_id, dataset, analyst);
CREATE TABLE steps (
    grant_hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (grant_hash, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE logs (
    partition INTEGER PRIMARY KEY,
    ledger TEXT NOT NULL,
    begins INTEGER NOT NULL,
    number INTEGER NOT NULL DEFAULT 0,
    head TEXT NOT NULL DEFAULT ''
) STRICT;
"""


class AnswerTables:
    """The tables in one connection. Any thread may call it; calls wait for one another.

    Raises of every method: apsw.Error.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._one_at_a_time = threading.Lock()
        with self.transaction():
            made_by = db.pragma("user_version")
            if made_by != VERSION:
                if made_by != WITHOUT_CHAIN:
                    db.execute(_SCHEMA)
                db.execute(CHAIN_TABLE)
                self._add_chains(db)
                db.pragma("user_version", VERSION)

    def _add_chains(self, db: apsw.Connection) -> None:
        """Add the entries of answers that an earlier version has stored, as one batch."""
        logs: Any = db.execute("SELECT partition, ledger FROM logs").fetchall()
        for partition, ledger in logs:
            answers = answers_in_order(db, partition)
            add_entries(db, first_head(ledger, partition), answers)

    @property
    def connection(self) -> apsw.Connection:
        """The connection, for a reader that nobody else works beside."""
        return self._db

    def open_log(self, partition: int, ledger: str, begins: int) -> tuple[str, int]:
        """Return the ledger that a partition is bound to, and where it begins; bind it if new."""
        with self.transaction() as db:
            insert = "INSERT OR IGNORE INTO logs (partition, ledger, begins) VALUES (?, ?, ?)"
            db.execute(insert, (partition, ledger, begins))
        bound = self.bound_log(partition)
        assert bound is not None
        return bound

    def begin_again(self, partition: int, begins: int) -> None:
        """Set where a partition that is bound begins."""
        with self.transaction() as db:
            db.execute("UPDATE logs SET begins = ? WHERE partition = ?", (begins, partition))

    def bound_log(self, partition: int) -> tuple[str, int] | None:
        """Return the ledger that a partition is bound to, and where it begins; None if new."""
        with self._one_at_a_time:
            query = "SELECT ledger, begins FROM logs WHERE partition = ?"
            bound: Any = self._db.execute(query, (partition,)).fetchone()
        return None if bound is None else (bound[0], bound[1])

    def place(self, partition: int) -> LogPlace:
        """As `AnswerStore.place`."""
        with self._one_at_a_time:
            query = "SELECT number, head FROM logs WHERE partition = ?"
            found: Any = self._db.execute(query, (partition,)).fetchone()
        return LogPlace(0, "") if found is None else LogPlace(*found)

    def move(self, partition: int, place: LogPlace) -> None:
        """As `AnswerStore.move`."""
        with self.transaction() as db:
            update = "UPDATE logs SET number = ?, head = ? WHERE partition = ?"
            db.execute(update, (*place, partition))

    def count(self) -> int:
        """Return the number of all answers; none is ever removed."""
        with self._one_at_a_time:
            found: Any = self._db.execute("SELECT count(*) FROM answers").fetchone()
        return int(found[0])

    def chain(self, partition: int, ledger: str) -> ChainEnd:
        """Return a partition's chain, after checking all of it, as it is at one moment.

        Raises: Refused: an answer was changed, removed or added.
        """
        with self.transaction(writes=False) as db:
            return read_chain(db, partition, ledger, answers_in_order(db, partition))

    def is_linked(self, answer: StoredAnswer) -> bool:
        """Tell whether an answer is the one that the chain has in its place."""
        with self.transaction(writes=False) as db:
            query = "SELECT ledger FROM logs WHERE partition = ?"
            ledger: Any = db.execute(query, (answer.partition,)).get
            return ledger is not None and is_linked(db, str(ledger), answer)

    def put_first(
        self, answers: Sequence[NewAnswer], *, number: int | None = None
    ) -> tuple[list[StoredAnswer], list[StoredAnswer]]:
        """Store answers whose grants have none.

        Args:
            number: of a single answer; None for the next free numbers.
        Returns: what is stored for each grant, and which of them are new.
        """
        with self.transaction() as db:
            return insert_first(db, answers, number=number)

    def put_step(self, grant: str, kind: StepKind, body: bytes) -> bytes:
        """As `AnswerStore.put_step`."""
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO steps VALUES (?, ?, ?)", (grant, kind, body))
        stored = self.step(grant, kind)
        assert stored is not None
        return stored

    def take_back(self, grant: str, kind: StepKind, body: bytes) -> None:
        """As `AnswerStore.take_back`."""
        with self.transaction() as db:
            delete = "DELETE FROM steps WHERE grant_hash = ? AND kind = ? AND body = ?"
            db.execute(delete, (grant, kind, body))

    def step(self, grant: str, kind: StepKind) -> bytes | None:
        """Return the stored step of a grant, None without one."""
        with self._one_at_a_time:
            query = "SELECT body FROM steps WHERE grant_hash = ? AND kind = ?"
            found: Any = self._db.execute(query, (grant, kind)).fetchone()
        return None if found is None else bytes(found[0])

    def get(self, grant: str) -> StoredAnswer | None:
        """As `AnswerReader.get`."""
        return self._first("grant_hash = ?", (grant,))

    def find(self, dataset: str, analyst: str, request_id: str) -> StoredAnswer | None:
        """As `AnswerReader.find`; of a request that was granted twice, the newer one."""
        # A ledger that was restored from a backup may grant an id again.
        where = "request_id = ? AND dataset = ? AND analyst = ? ORDER BY number DESC LIMIT 1"
        return self._first(where, (request_id, dataset, analyst))

    def page(self, dataset: str, *, after: int, limit: int) -> list[StoredAnswer]:
        """As `AnswerReader.page`."""
        with self._one_at_a_time:
            where = "dataset = ? AND number > ? ORDER BY number LIMIT ?"
            return list(select_answers(self._db, where, (dataset, after, limit)))

    def close(self) -> None:
        """Close the connection. Never raises."""
        with self._one_at_a_time, contextlib.suppress(apsw.Error):
            self._db.close()

    def _first(self, where: str, values: tuple[object, ...]) -> StoredAnswer | None:
        with self._one_at_a_time:
            return next(select_answers(self._db, where, values), None)

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[apsw.Connection]:
        """Run a transaction; if it writes, it holds the right to from its begin on."""
        with self._one_at_a_time:
            self._db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(apsw.Error):
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                raise


def check_schema(db: apsw.Connection, path: object) -> None:
    """Check that a store has exactly the tables and indexes of one.

    A trigger or a view could change what is stored, before its entry is made.

    Raises: Refused. apsw.Error.
    """
    made_by: Any = db.pragma("user_version")
    found, due = _schema(db), _due_schema(made_by == VERSION)
    if found != due:
        names = ", ".join(sorted(dict(found.items() ^ due.items())))
        raise Refused(
            f"{path} is no sound store of answers: {names} is missing, or is not as a store has "
            "it. Put the newest copy of the answers back"
        )


def _schema(db: apsw.Connection) -> dict[str, str]:
    """Return the text of each object in a file, without its white space."""
    rows: Any = db.execute("SELECT name, sql FROM sqlite_schema")
    return {str(name): " ".join(str(sql).split()) for name, sql in rows}


@functools.cache
def _due_schema(has_chain: bool) -> dict[str, str]:
    with contextlib.closing(apsw.Connection(":memory:")) as db:
        db.execute(_SCHEMA + (CHAIN_TABLE if has_chain else ""))
        return _schema(db)


def insert_first(
    db: apsw.Connection, answers: Sequence[NewAnswer], *, number: int | None = None
) -> tuple[list[StoredAnswer], list[StoredAnswer]]:
    """Store answers within a transaction: see `AnswerTables.put_first`."""
    stored, new = list[StoredAnswer](), list[StoredAnswer]()
    for each in answers:
        next_number = _next_number(db, each.partition) if number is None else number
        row = (
            *(each.partition, next_number, each.grant),
            *(each.dataset, each.analyst, each.request_id, each.value),
        )
        db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        is_new = db.changes() > 0
        stored += select_answers(db, "grant_hash = ?", (each.grant,))
        if is_new:
            new.append(stored[-1])
    return stored, new


def _next_number(db: apsw.Connection, partition: int) -> int:
    query = "SELECT coalesce(max(number), 0) + 1 FROM answers WHERE partition = ?"
    found: Any = db.execute(query, (partition,)).fetchone()
    return int(found[0])


def select_answers(
    db: apsw.Connection, where: str, values: tuple[Any, ...]
) -> Iterator[StoredAnswer]:
    """Yield the answers that a condition of SQL selects.

    Raises: apsw.Error.
    """
    rows: Any = db.execute(f"SELECT {_COLUMNS} FROM answers WHERE {where}", values)  # noqa: S608
    yield from map(_stored_answer, rows.fetchall())


def answers_in_order(db: apsw.Connection, partition: int) -> Iterator[StoredAnswer]:
    """Yield every answer of a partition, by number; read them to the end.

    Raises: apsw.Error.
    """
    query = f"SELECT {_COLUMNS} FROM answers WHERE partition = ? ORDER BY number"  # noqa: S608
    rows: Any = db.execute(query, (partition,))
    yield from map(_stored_answer, rows)


def _stored_answer(row: tuple[Any, ...]) -> StoredAnswer:
    partition, number, grant, dataset, analyst, request_id, value = row
    return StoredAnswer(
        number=number,
        grant=grant,
        partition=partition,
        dataset=dataset,
        analyst=analyst,
        request_id=request_id,
        value=bytes(value),
    )
