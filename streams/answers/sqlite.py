"""The store of answers of a ledger in a file: a second SQLite file beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import apsw

from streams.answers.mark import StoreMark
from streams.answers.store import LogPlace, NewAnswer, StepKind, StoredAnswer
from streams.answers.tables import APPLICATION_ID, VERSION, AnswerTables
from streams.broadcast import Broadcast, Subscription
from streams.errors import Refused, Unavailable
from streams.logs import get_logger
from streams.private_files import check_private, make_private, sync_directory

_log = get_logger(__name__)

_BUSY_MS: Final = 10_000
_SUFFIX: Final = ".answers"


def answers_path(ledger: Path, path: Path | None) -> Path:
    """Return the path of the store of a ledger's file: the setting's, or one beside the ledger."""
    return ledger.with_name(ledger.name + _SUFFIX) if path is None else path.absolute()


class SqliteAnswers:
    """An `AnswerStore` in a file that only its user can read. Use `open` to make one.

    Several processes may have it open. Each commit is synced to disk before its call returns.
    """

    def __init__(
        self, writer: AnswerTables, reader: AnswerTables, path: Path, mark: StoreMark
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._path = path
        self._mark = mark
        self._marked = 0  # answers that the mark knows of
        self._new = Broadcast[StoredAnswer]()
        self.trouble: str | None = None

    @classmethod
    def open(cls, path: Path, *, beside: Path | None = None) -> Self:
        """Open a file, and create it if it is missing.

        Args:
            beside: the file that the mark is beside, by default this one. Name one that stays the
                same where `path` may change.

        Raises: Refused: it is no store of answers, other users can access it, or it cannot be
            opened.
        """
        try:
            make_private(path)
            sync_directory(path.parent)
            check_private(path, path.stat(), "remember that they may have read the answers")
            writer = AnswerTables(_connect(path))
            # In WAL mode a second connection reads while the first one waits for the disk.
            reader = AnswerTables(_connect(path))
            mark = StoreMark.beside(beside or path, path)
        except (OSError, apsw.Error) as error:
            raise Refused(
                f"the answers in {path} cannot be opened: {error}. Repair that, or put the newest "
                f"file back. If it is lost, remove {path} and {(beside or path).name}.mark: every "
                "question without an answer that was granted before fails, and stays charged"
            ) from error
        return cls(writer, reader, path, mark)

    async def open_log(self, partition: int, ledger: str, begins: int) -> int:
        """As `AnswerStore.open_log`."""
        with self._unavailable():
            bound, first = await asyncio.to_thread(self._writer.open_log, partition, ledger, begins)
            if bound != ledger:
                raise Refused(
                    f"{self._path} has the answers of ledger {bound}, and this is ledger {ledger}. "
                    "Give each ledger its own file"
                )
            return await asyncio.to_thread(self._check_mark, partition, first, begins)

    def _check_mark(self, partition: int, first: int, begins: int) -> int:
        """Return the number that a log begins with: `begins` if answers may be missing."""
        count = self._writer.count()
        if self._mark.fits(count):
            self._write_mark()
            return first
        # Before the mark: after a crash between the two, the mark is still missing.
        self._writer.begin_again(partition, begins)
        self._mark.write(count)
        self._marked = count
        if first != begins:
            _log.warning(
                "answers_may_be_missing",
                file=str(self._path),
                then=f"questions that were granted before decision {begins} are not run",
            )
        return begins

    async def place(self, partition: int) -> LogPlace:
        """As `AnswerStore.place`."""
        with self._unavailable():
            return await asyncio.to_thread(self._reader.place, partition)

    async def move(self, partition: int, place: LogPlace) -> None:
        """As `AnswerStore.move`."""
        with self._unavailable():
            await asyncio.to_thread(self._writer.move, partition, place)

    async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        """As `AnswerStore.put_first`."""
        with self._unavailable():
            # If the last call could not write the mark, nothing is stored before it is written.
            await asyncio.to_thread(self._write_mark)
            stored, new = await asyncio.to_thread(self._writer.put_first, answers)
            try:
                await asyncio.to_thread(self._write_mark)
            finally:
                self._new.send(new)
        return stored

    def _write_mark(self) -> None:
        """Write the mark if it is behind. Raises: Refused: the file was replaced; Unavailable."""
        count = self._writer.count()
        if count < self._marked or not self._mark.is_of_file():
            raise Refused(
                f"{self._path} was replaced while it was in use, and nothing more is stored in it. "
                "Stop the server and put the file back that was there. If it is lost, remove "
                f"{self._mark.path}: every question without an answer that was granted before the "
                "next start fails, and stays charged"
            )
        if count > self._marked:
            try:
                self._mark.write(count)
            except Refused as error:
                raise Unavailable(str(error)) from error
            self._marked = count

    async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
        """As `AnswerStore.put_step`."""
        with self._unavailable():
            return await asyncio.to_thread(self._writer.put_step, grant, kind, body)

    async def get(self, grant: str) -> StoredAnswer | None:
        """As `AnswerReader.get`."""
        with self._unavailable():
            return await asyncio.to_thread(self._reader.get, grant)

    async def find(self, dataset: str, analyst: str, request_id: str) -> StoredAnswer | None:
        """As `AnswerReader.find`."""
        with self._unavailable():
            return await asyncio.to_thread(self._reader.find, dataset, analyst, request_id)

    async def page(self, dataset: str, *, after: int, limit: int) -> list[StoredAnswer]:
        """As `AnswerReader.page`."""
        with self._unavailable():
            return await asyncio.to_thread(self._reader.page, dataset, after=after, limit=limit)

    def subscribe(self) -> Subscription[StoredAnswer]:
        """As `AnswerReader.subscribe`."""
        return self._new.subscribe()

    async def close(self) -> None:
        """As `AnswerStore.close`."""
        self._new.end()
        await asyncio.to_thread(self._reader.close)
        await asyncio.to_thread(self._writer.close)

    @contextlib.contextmanager
    def _unavailable(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise Unavailable(f"the answers in {self._path} cannot be used: {error}") from error


def _connect(path: Path) -> apsw.Connection:
    """Return a connection that syncs each commit.

    Raises: Refused: the file is another program's, or a newer version's; apsw.Error.
    """
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(_BUSY_MS)
        made_by, mark = db.pragma("user_version"), db.pragma("application_id")
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone() or (0,)
        if mark != APPLICATION_ID and (mark or tables):
            raise Refused(f"{path} is another program's file. Choose another one for the answers")
        if int(made_by or 0) > VERSION:
            raise Refused(f"{path} was made by a newer version of this program. Run that version")
        if mark != APPLICATION_ID:
            db.pragma("application_id", APPLICATION_ID)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
    except BaseException:
        db.close()
        raise
    return db
