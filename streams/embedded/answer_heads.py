"""The head of the answers in the ledger's own file, written after each commit to their store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw
from msgspec import UNSET

from streams.answers import SqliteAnswers, answers_path
from streams.answers.heads import ChainHead, StoredHead
from streams.clock import Clock
from streams.embedded.checkpointing import kept_of, ledger_id
from streams.embedded.ledger_file import ANSWER_HEADS_TABLE, partition_row, reader
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from streams.telemetry.logs import get_logger

if TYPE_CHECKING:
    from streams.evidence.answers_head_folder import AnswersHeadFolder, AnswersHeadSigner
    from streams.evidence.sink_sender import Senders

_log = get_logger(__name__)

_BUSY_MS: Final = 10_000
_QUERY: Final = "SELECT number, hash, branch, begun, begins FROM answer_heads WHERE partition = ?"


class LedgerAnswerHeads:
    """`AnswerHeads` in the table `answer_heads` of a ledger's file.

    The owner of the file may write to it at the same time: it allows other commits, as long as the
    log's end stays. Each call has a connection of its own, so none holds a file that was replaced.

    Args:
        path: of the ledger's file.
        open_folder: opens the folder of signed heads; None where nothing is signed.
        signer: signs each head that was written.
    """

    def __init__(
        self,
        path: Path,
        *,
        open_folder: Callable[[], AnswersHeadFolder] | None = None,
        signer: AnswersHeadSigner | None = None,
    ) -> None:
        self._path = path
        self._open_folder = open_folder
        self._signer = signer

    def read(self, partition: int) -> StoredHead | None:
        """As `AnswerHeads.read`."""
        with self._unavailable(), reader(self._path) as db:
            return read_answer_head(db, partition)

    def write(self, partition: int, head: StoredHead) -> None:
        """As `AnswerHeads.write`."""
        with self._unavailable():
            db = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                db.set_busy_timeout(_BUSY_MS)
                db.pragma("synchronous", "full")
                db.set_wal_hook(_no_checkpoint)  # the ledger's owner makes them all
                write_answer_head(db, partition, head)
            finally:
                db.close()
        if self._signer is not None:
            self._signer.wake(head)

    def branch(self, partition: int) -> int:
        """As `AnswerHeads.branch`."""
        with self._unavailable(), reader(self._path) as db:
            row = partition_row(db)
            return 0 if row is None or row.branch is UNSET else row.branch

    def signed(self, partition: int) -> Sequence[StoredHead]:
        """As `AnswerHeads.signed`; nothing where the folder cannot be read, as of checkpoints."""
        if self._open_folder is None:
            return ()
        try:
            return self._open_folder().load()
        except (Unavailable, Refused) as error:
            _log.warning("answers_heads_not_read", why=str(error), then="answers are not compared")
            return ()

    def close(self) -> None:
        """Sign the last head, and end."""
        if self._signer is not None:
            self._signer.close()

    @contextlib.contextmanager
    def _unavailable(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            what = f"the head of the answers in {self._path} cannot be used: {error}"
            raise Unavailable(what) from error


def heads_of(path: Path, settings: Settings) -> LedgerAnswerHeads:
    """Return the heads of a ledger's answers, without signing new ones.

    Args:
        path: of the ledger's file.
    """
    path = path.absolute()
    if settings.checkpoints == "off":
        return LedgerAnswerHeads(path)
    return LedgerAnswerHeads(path, open_folder=lambda: _folder_of(path, settings))


def signing_heads(
    path: Path, settings: Settings, clock: Clock, senders: Senders | None
) -> LedgerAnswerHeads:
    """Return the heads of a ledger's answers; each is signed, beside the log's checkpoints.

    Args:
        path: as of `heads_of`.
        senders: are given what was signed.
    """
    path = path.absolute()
    if settings.checkpoints == "off":
        return LedgerAnswerHeads(path)
    from streams.evidence.answers_head_folder import AnswersHeadSigner

    signer = AnswersHeadSigner(
        lambda: _folder_of(path, settings),
        clock,
        seconds=settings.checkpoint_seconds,
        send=None if senders is None else senders.take,
    )
    return LedgerAnswerHeads(path, open_folder=lambda: _folder_of(path, settings), signer=signer)


def _folder_of(path: Path, settings: Settings) -> AnswersHeadFolder:
    """Return the folder of a ledger's checkpoints, and those of its earlier paths.

    Raises: Unavailable, Refused: it cannot be used.
    """
    from streams.evidence.answers_head_folder import AnswersHeadFolder

    kept = kept_of(path, settings)
    named = [each for each in kept.folder.parent.glob("*") if each.is_dir()]
    return AnswersHeadFolder(kept.folder, named, 0, kept.ledger, kept.key)


def accept_answers(ledger: Path, store: Path, heads: LedgerAnswerHeads) -> StoredHead:
    """Accept a store as all the answers that a stopped ledger has; return its new head.

    Args:
        ledger: the ledger's file.
        store: of the answers; made if it is missing.
    Raises: Refused: the store is another ledger's, or an answer in it was changed. Unavailable.
    """
    beside = answers_path(ledger, None)
    answers = SqliteAnswers.open(store, heads, beside=beside)
    try:
        with reader(ledger) as db:
            last: Any = db.execute("SELECT max(sequence) FROM decisions").get
        return answers.accept(0, ledger_id(ledger), int(last) + 1)
    finally:
        answers.close_now()


def read_answer_head(db: apsw.Connection, partition: int) -> StoredHead | None:
    """Return the head of the answers in a ledger's file, None if it has none.

    Raises: apsw.Error.
    """
    if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'answer_heads'").get:
        return None
    found: Any = db.execute(_QUERY, (partition,)).fetchone()
    return None if found is None else StoredHead(ChainHead(*found[:2]), *found[2:])


def write_answer_head(db: apsw.Connection, partition: int, head: StoredHead) -> None:
    """Write a head in a transaction of its own, unless a later one is there.

    Raises: apsw.Error.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(ANSWER_HEADS_TABLE)
        before = read_answer_head(db, partition)
        if before is None or before.order <= head.order:
            row = (partition, *head.head, head.branch, head.begun, head.begins)
            db.execute("INSERT OR REPLACE INTO answer_heads VALUES (?, ?, ?, ?, ?, ?)", row)
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(apsw.Error):
            db.execute("ROLLBACK")
        raise


def _no_checkpoint(_db: apsw.Connection, _name: str, _pages: int) -> int:
    return apsw.SQLITE_OK
