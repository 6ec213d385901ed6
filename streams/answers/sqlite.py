"""The store of answers of a ledger in a file: a second SQLite file beside it."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import apsw

from streams.answers.chain import (
    ChainEnd,
    add_entries,
    difference_from_heads,
    first_head,
    has_entry,
    last_entry,
)
from streams.answers.heads import AnswerHeads, ChainHead, StoredHead
from streams.answers.mark import SUFFIX, fits_mark
from streams.answers.store import LogPlace, NewAnswer, StepKind, StoreDamaged, StoredAnswer
from streams.answers.tables import APPLICATION_ID, VERSION, AnswerTables, check_schema, insert_first
from streams.error_words import write_words
from streams.errors import Refused, Unavailable
from streams.files.ledger_url import url_option
from streams.files.private_files import check_private, make_private
from streams.files.whole_files import sync_directory
from streams.tasks.broadcast import Broadcast, Subscription
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_BUSY_MS: Final = 10_000
_SUFFIX: Final = ".answers"
_OF_THE_DISK: Final = (
    apsw.FullError,
    apsw.ReadOnlyError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.BusyError,
)
"""Errors that say nothing of the file's content: nobody should remove it."""
_PUT_BACK: Final = "Stop the server and put the newest copy of the answers back. If there is none, "


def answers_path(ledger: Path, path: Path | None) -> Path:
    """Return the path of the store of a ledger's file: the setting's, or one beside the ledger."""
    return ledger.with_name(ledger.name + _SUFFIX) if path is None else path.absolute()


def _accept(beside: Path) -> str:
    """Return what to do without a copy of the answers, beside whose file the ledger is."""
    ledger = beside.with_name(beside.name.removesuffix(_SUFFIX))
    return (
        f"run `accountant accept-answers {url_option(ledger)}`: every question without an answer "
        "that was granted before fails, and stays charged"
    )


class SqliteAnswers:
    """An `AnswerStore` in a file that only its user can read. Use `open` to make one.

    Several processes may have it open. Each commit is synced to disk before its call returns. An
    answer is shown from the moment at which a head outside of the file names its entry.
    """

    def __init__(
        self,
        writer: AnswerTables,
        reader: AnswerTables,
        path: Path,
        heads: AnswerHeads,
        beside: Path,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._path = path
        self._inode = path.stat().st_ino
        self._heads = heads
        self._mark = beside.with_name(beside.name + SUFFIX)
        self._accept = _accept(beside)
        self._firsts = dict[int, ChainHead]()  # of the chains that were compared
        self._shown = dict[int, int]()  # numbers up to which answers are shown
        self._unsent = list[StoredAnswer]()  # committed, and not named by a head yet
        self._ready = deque[StoredAnswer]()
        self._storing = threading.Lock()  # also while the head is written
        self._new = Broadcast[StoredAnswer]()
        self.trouble: str | None = None

    @classmethod
    def open(cls, path: Path, heads: AnswerHeads, *, beside: Path | None = None) -> Self:
        """Open a file, and create it if it is missing.

        Args:
            heads: of the ledger.
            beside: the default store of the ledger's file, which is beside it; by default this
                one. An earlier version's mark is beside it, too.

        Raises: Refused: it is no store of answers, other users can access it, or it cannot be
            opened.
        """
        try:
            make_private(path)
            sync_directory(path.parent)
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
                raise Refused(
                    f"{path} is {kind}, and not the store of answers. {_PUT_BACK}move {path} away "
                    f"and {_accept(beside or path)}"
                )
            check_private(path, status, "remember that they may have read the answers")
            writer = AnswerTables(_connect(path))
            # In WAL mode a second connection reads while the first one waits for the disk.
            reader = AnswerTables(_connect(path))
            return cls(writer, reader, path, heads, beside or path)
        except (OSError, *_OF_THE_DISK) as error:
            raise Refused(
                f"the answers in {path} cannot be opened: {error}. Free the disk, or make them "
                "readable and writable for this user"
            ) from error
        except apsw.Error as error:
            raise Refused(
                f"the answers in {path} cannot be opened: {error}. {_PUT_BACK}remove {path} and "
                f"{_accept(beside or path)}"
            ) from error

    async def open_log(self, partition: int, ledger: str, begins: int) -> int:
        """As `AnswerStore.open_log`."""
        with self._unavailable():
            bound, first = await asyncio.to_thread(self._writer.open_log, partition, ledger, begins)
            self._check_bound(bound, ledger)
            return await asyncio.to_thread(self._open_chain, partition, ledger, first, begins)

    def _check_bound(self, bound: str, ledger: str) -> None:
        if bound != ledger:
            raise Refused(
                f"{self._path} has the answers of ledger {bound}, and this is ledger {ledger}. "
                "Give each ledger its own file"
            )

    def _open_chain(self, partition: int, ledger: str, first: int, begins: int) -> int:
        """Compare the chain with its heads, and write the head; return where the log begins."""
        chain, stored = self._chain(partition, ledger), self._heads.read(partition)
        branch = self._heads.branch(partition)
        if stored is None:
            self._check_heads(chain, partition, None)
            if first != begins and not fits_mark(self._mark, self._path, self._writer.count()):
                first = self._begin_again(partition, begins)
            new = StoredHead(chain.head, branch, 0, first)
        elif stored.branch < branch:
            # Decisions were lost and accepted as lost, so answers may be, too.
            new = StoredHead(chain.head, branch, 0, self._begin_again(partition, begins))
        else:
            self._check_heads(chain, partition, stored)
            new = stored._replace(head=chain.head, begins=max(first, stored.begins))
        self._heads.write(partition, new)
        self._mark.unlink(missing_ok=True)
        self._firsts[partition] = first_head(ledger, partition)
        self._shown[partition] = chain.head.number
        return new.begins

    def accept(self, partition: int, ledger: str, begins: int) -> StoredHead:
        """Accept the answers that are here as all there are; return the new head.

        No question that was granted before decision `begins` is run afterwards. Call it while no
        curator runs, since it waits.

        Raises: Refused: they are another ledger's, or an answer was changed. Unavailable.
        """
        with self._unavailable():
            bound, _ = self._writer.open_log(partition, ledger, begins)
            self._check_bound(bound, ledger)
            try:
                chain = self._reader.chain(partition, ledger)
            except Refused as error:
                what = f"{self._path}: {error}. Put a sound copy back, or remove the file"
                raise Refused(what) from error
            stored, branch = self._heads.read(partition), self._heads.branch(partition)
            known = [*self._heads.signed(partition), *([stored] if stored is not None else ())]
            begun = max((each.begun for each in known if each.branch >= branch), default=-1)
            self._begin_again(partition, begins)
            new = StoredHead(chain.head, branch, begun + 1, begins)
            self._heads.write(partition, new)
            self._mark.unlink(missing_ok=True)
            return new

    async def check(self, partition: int, ledger: str) -> None:
        """Compare the answers with their heads, and write nothing. For a server without data.

        Raises: Refused: they are another ledger's, or an older, changed or cut copy. Unavailable.
        """
        with self._unavailable():
            await asyncio.to_thread(self._check, partition, ledger)

    def _check(self, partition: int, ledger: str) -> None:
        bound = self._reader.bound_log(partition)
        if bound is not None:
            self._check_bound(bound[0], ledger)
        stored = self._heads.read(partition)
        if stored is None or stored.branch == self._heads.branch(partition):
            self._check_heads(self._chain(partition, ledger), partition, stored)

    def _chain(self, partition: int, ledger: str) -> ChainEnd:
        """Return the chain, after checking all of it. Raises: Refused."""
        try:
            return self._reader.chain(partition, ledger)
        except Refused as error:
            way_out = f"{_PUT_BACK}remove {self._path} and {self._accept}"
            raise Refused(f"{self._path}: {error}. {way_out}") from error

    def _check_heads(self, chain: ChainEnd, partition: int, stored: StoredHead | None) -> None:
        """Raises: Refused: the store is older than a head, or another one."""
        signed = self._heads.signed(partition)
        why = difference_from_heads(chain, stored, signed)
        if why is not None:
            raise Refused(f"{self._path} is {why}. {_PUT_BACK}{self._accept}")

    def _begin_again(self, partition: int, begins: int) -> int:
        self._writer.begin_again(partition, begins)
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
        if not answers:
            return []
        with self._unavailable():
            stored = await asyncio.to_thread(self._put_first, answers)
        self._new.send([self._ready.popleft() for _ in range(len(self._ready))])
        return stored

    def _put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        partition = answers[0].partition
        with self._storing:
            with self._writer.transaction() as db:
                stored_head = self._finish_batch(db, partition)
                stored, new = insert_first(db, answers)
                head = add_entries(db, stored_head.head, new)
            # Until here nobody reads them: `_is_shown` asks for the head.
            self._unsent += new
            self._heads.write(partition, stored_head._replace(head=head))
            self._shown[partition] = max(head.number, self._shown.get(partition, 0))
            self._ready.extend(self._unsent)
            self._unsent.clear()
        return stored

    def _finish_batch(self, db: apsw.Connection, partition: int) -> StoredHead:
        """Write the head of a batch whose curator has ended before it did; return the head.

        So nothing is stored behind a head that lacks an earlier batch.

        Raises: Refused: the file is not the one with that head any more.
        """
        first, stored = self._firsts[partition], self._heads.read(partition)
        is_here = stored is not None and has_entry(db, partition, stored.head, first)
        if stored is None or not is_here or not self._is_in_place():
            raise Refused(
                f"{self._path} was replaced while it was in use, and nothing more is stored in it. "
                f"{_PUT_BACK}{self._accept}"
            )
        last = last_entry(db, partition) or first
        if last != stored.head:
            stored = stored._replace(head=last)
            self._heads.write(partition, stored)
        return stored

    def _is_in_place(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _is_shown(self, answer: StoredAnswer) -> bool:
        """Tell whether a head names an answer; before that, the disk may still lose it."""
        partition = answer.partition
        if answer.number <= self._shown.get(partition, 0):
            return True
        stored = self._heads.read(partition)
        if stored is None:  # an earlier version's store, which no curator has opened yet
            return True
        self._shown[partition] = stored.head.number
        return answer.number <= stored.head.number

    async def is_linked(self, answer: StoredAnswer) -> bool:
        """Tell whether an answer is the one that the chain has in its place.

        Whoever changes an answer in the file must change the chain, too, and that differs from its
        head. True of a store of an earlier version, which no curator has opened yet.
        """
        with self._unavailable():
            if await asyncio.to_thread(self._heads.read, answer.partition) is None:
                return True
            return await asyncio.to_thread(self._reader.is_linked, answer)

    async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
        """As `AnswerStore.put_step`."""
        with self._unavailable():
            return await asyncio.to_thread(self._writer.put_step, grant, kind, body)

    async def take_back(self, partition: int, grant: str, kind: StepKind, body: bytes) -> None:
        """As `AnswerStore.take_back`."""
        with self._unavailable():
            await asyncio.to_thread(self._writer.take_back, grant, kind, body)

    async def get(self, grant: str) -> StoredAnswer | None:
        """As `AnswerReader.get`."""
        return await self._one(lambda: self._reader.get(grant))

    async def find(self, dataset: str, analyst: str, request_id: str) -> StoredAnswer | None:
        """As `AnswerReader.find`."""
        return await self._one(lambda: self._reader.find(dataset, analyst, request_id))

    async def _one(self, read: Callable[[], StoredAnswer | None]) -> StoredAnswer | None:
        def shown() -> StoredAnswer | None:
            found = read()
            return found if found is not None and self._is_shown(found) else None

        with self._unavailable():
            return await asyncio.to_thread(shown)

    async def page(self, dataset: str, *, after: int, limit: int) -> list[StoredAnswer]:
        """As `AnswerReader.page`."""

        def shown() -> list[StoredAnswer]:
            found = self._reader.page(dataset, after=after, limit=limit)
            return [each for each in found if self._is_shown(each)]

        with self._unavailable():
            return await asyncio.to_thread(shown)

    def subscribe(self) -> Subscription[StoredAnswer]:
        """As `AnswerReader.subscribe`."""
        return self._new.subscribe()

    async def close(self) -> None:
        """As `AnswerStore.close`."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """As `close`; waits for a call that runs."""
        self._new.end()
        self._reader.close()
        self._writer.close()

    @contextlib.contextmanager
    def _unavailable(self) -> Iterator[None]:
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            what = f"the answers in {self._path} cannot be used: {error}"
            way_out = f"{_PUT_BACK}remove {self._path} and {self._accept}"
            # Whoever has noticed it: a server that shows answers may be the first.
            self.trouble = f"{what}. {way_out}. Once that is done, start the server again"
            raise StoreDamaged(what, way_out) from error
        except (apsw.Error, OSError) as error:
            what = f"the answers in {self._path} cannot be used: {write_words(error, self._path)}"
            raise Unavailable(what) from error


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
        if tables:
            check_schema(db, path)
        if mark != APPLICATION_ID:
            db.pragma("application_id", APPLICATION_ID)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
    except BaseException:
        db.close()
        raise
    return db
