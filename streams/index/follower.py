"""A task that keeps an index behind the commits of a log that this process can read.

    deciding thread        follower's thread                      reader's thread
    ---------------        -----------------                      ---------------
    commit
    wake() ------------->  step, after a pause:
                           read a slice of the log       <------- read(upto): hurry, wait
                           count it, write it, say how far ------> the index

Nothing here decides, and nothing that decides waits for it. Whatever goes wrong with the index
is `trouble`, in words, and is tried again or done without. Of several partitions each is read in
its turn; one whose log cannot be read keeps none of the others from being whole.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import apsw

from accountant.errors import BudgetError
from streams.background import THREADS, Background
from streams.errors import Unavailable
from streams.index.file_alone import FileAlone, Taken
from streams.index.followed import SLICE, Followed
from streams.index.rows import Rows
from streams.index.usage_index import Log, Moved, Reached, Unfit, UsageIndex, is_index
from streams.logs import get_logger
from streams.private_files import file_mode, make_private

T = TypeVar("T")

_log = get_logger(__name__)
PAUSE_S: Final = 0.5
"""Between two writes while nobody asks: a commit of the index then takes many decisions."""
_YIELD_S: Final = 0.001  # after each slice, so that others get the interpreter
_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 60.0
_TAKEN_S: Final = 5.0  # between two looks whether another process has let go of the file
_FILES: Final = ("", "-wal", "-shm", "-journal")


class Follower:
    """Keeps the index of a log. Its steps begin with the first `wake` or `read`.

    Args:
        open_log: called with a partition's number in a step.
        path: of the index; None for one of this process alone, which is gone with it.
        partitions: how many the log has.
        shared_log: other processes may read this log, too: the file is locked, and a reader, who
            knows no number of the last decision, waits until the log's end was reached once.
        most: decisions of one transaction.
        background: calls the steps.
    """

    def __init__(
        self,
        open_log: Callable[[int], Log],
        path: Path | None,
        *,
        partitions: int = 1,
        shared_log: bool = False,
        most: int = SLICE,
        background: Background = THREADS,
    ) -> None:
        self._path = path
        self._shared_log = shared_log
        self.parts = [
            Followed(number, open_log, alone=shared_log, most=most, steady=background.steady)
            for number in range(partitions)
        ]
        self._grown = set[int]()
        self._due = set[int]()  # partitions whose log's end was not reached
        self._woken = False
        self._hurried = False
        self._next_at: float | None = None
        self._before: list[Reached] = []
        self._retry = _RETRY_S
        self._moved = threading.Condition()
        self._index: UsageIndex | None = None
        self._steady = background.steady
        self._runner = background.runner(self, "usage-index")
        self._unfit: str | None = None
        self._trouble: str | None = None
        self._alone: FileAlone | None = None
        self._look_at: float | None = None  # for a file that another process has

    @property
    def trouble(self) -> str | None:
        """What is wrong with the index, in words; None while nothing is."""
        if self._trouble is not None:
            return self._trouble
        troubles = (self._named(part, part.trouble) for part in self.parts if part.trouble)
        return next(troubles, None)

    def wake(self, partition: int = 0) -> None:
        """Say that the log has grown. Returns at once."""
        # In this order: a step clears the mark before it empties the set.
        self._grown.add(partition)
        if not self._woken:
            self._woken = True
            self._runner.wake()

    def start(self) -> None:
        """Begin the steps, unless they have begun or `close` was called."""
        self._runner.start()

    def read(self, uptos: Mapping[int, int], take: Callable[[Rows], T], *, wait: float) -> T:
        """Return what `take` makes of the index, once that has taken in some decisions.

        Args:
            uptos: the number of a decision by partition; -1 where none is known.

        Raises: Unavailable: that takes longer than `wait` seconds, or fails.
        """
        until = self._steady() + wait
        while True:
            index, reached = self._wait(uptos, until)
            try:
                with index.at(reached) as rows:
                    return take(rows)
            except Moved:  # by another process: wait for this one's thread to look at the log
                self._ask(uptos)
                if self._steady() >= until:
                    raise Unavailable("the index of usage is being written to: ask again") from None
                time.sleep(_YIELD_S)
            except apsw.Error as error:  # closed, locked or damaged meanwhile
                raise Unavailable(f"the index of usage cannot be read: {error}") from error

    def _wait(
        self, uptos: Mapping[int, int], until: float
    ) -> tuple[UsageIndex, Mapping[int, Reached]]:
        self.start()
        with self._moved:
            while (behind := self._behind(uptos)) is not None or self._index is None:
                self._ask(uptos)
                left = until - self._steady()
                if left <= 0 or self._runner.is_stopping:
                    raise Unavailable(self._explained(behind, uptos))
                self._moved.wait(min(left, _RETRY_S))
            return self._index, {number: self.parts[number].reached for number in uptos}

    def _behind(self, uptos: Mapping[int, int]) -> Followed | None:
        """Return the first partition that a reader must wait for."""
        for number, upto in uptos.items():
            part = self.parts[number]
            is_whole = part.whole or not self._shared_log
            if not part.placed or not is_whole or part.reached.sequence < upto:
                return part
        return None

    def _explained(self, behind: Followed | None, uptos: Mapping[int, int]) -> str:
        if behind is None:
            return f"the index of usage cannot be read: {self._trouble or 'it is being opened'}"
        upto = uptos[behind.number]
        of = f" of {upto}" if upto > behind.reached.sequence else ""
        at = self._named(behind, f"it has reached decision {behind.reached.sequence}{of}")
        why = self._trouble or behind.trouble or "it is being built"
        return f"the index of usage is behind: {at}: {why}"

    def _named(self, part: Followed, what: str | None) -> str:
        return f"partition {part.number}: {what}" if len(self.parts) > 1 else str(what)

    def _ask(self, partitions: Iterable[int]) -> None:
        self._grown.update(partitions)
        self._hurried = self._woken = True
        self._runner.wake()

    def close(self, within: float = 5.0) -> None:
        """End, in the middle of the log; the next process goes on from there."""
        self._runner.stop()
        with self._moved:
            self._moved.notify_all()
        self._runner.join(within)

    def step(self) -> float | None:
        """Keep up with the log for a moment, if it is time to."""
        if not self._hurried and (pause := self._pause()) > 0:
            return None if math.isinf(pause) else pause
        self._woken = self._hurried = False
        is_open = False
        try:
            is_open = self._follow()
        except Exception as error:  # whatever it is, the ledger goes on without an index
            self._handle(error)
        if not is_open:
            self.finish()
            moved = self._before != [part.reached for part in self.parts]
            self._retry = _RETRY_S if moved else min(2 * self._retry, _MOST_RETRY_S)
            self._hurried = False
            self._next_at = self._steady() + self._retry
        return 0

    def _pause(self) -> float:
        """Return the seconds until it is time to read the log."""
        now = self._steady()
        if self._next_at is None:  # a command that decides once and ends leaves the index alone
            self._next_at = now + PAUSE_S
        elif self._woken and self._index is not None:
            self._next_at = min(self._next_at, now + PAUSE_S)
        return self._next_at - now

    def _handle(self, error: Exception) -> None:
        self._tell(_in_words(error))
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            self._remove_damaged()
        elif isinstance(error, apsw.ReadOnlyError):
            self._unfit = f"{self._path} cannot be written: {error}"
        elif isinstance(error, Unfit):
            self._unfit = str(error)

    def _follow(self) -> bool:
        """Take in what is due; return whether the index stays open."""
        index = self._open() if self._index is None else self._index
        while self._grown:
            self._due.add(self._grown.pop())
        self._due = self._catch_up(index, self._due)
        if self._is_file_free():
            return False
        self._next_at = self._steady()
        if not self._due:
            self._next_at += self._longest_wait() + PAUSE_S
            self._due = {part.number for part in self.parts if part.again_at is not None}
        return True

    def _catch_up(self, index: UsageIndex, due: Iterable[int]) -> set[int]:
        """Take in slices for a moment, turn by turn; return who is not at the end yet."""
        turns, until = deque(sorted(due)), self._steady() + PAUSE_S
        while turns and not self._runner.is_stopping and self._steady() < until:
            part = self.parts[turns.popleft()]
            if part.again_at is not None and self._steady() < part.again_at:
                continue
            try:
                is_end = part.take_slice(index)
            except BudgetError as error:
                part.fail(str(error))
                continue
            finally:
                with self._moved:
                    self._moved.notify_all()
            self._trouble = self._unfit
            if not is_end:
                turns.append(part.number)
                time.sleep(_YIELD_S)
        return set(turns)

    def _longest_wait(self) -> float:
        """Return after how many seconds there is something to do although nothing has grown."""
        times = [part.again_at for part in self.parts if part.again_at is not None]
        if self._look_at is not None:
            times.append(self._look_at)
        return max(0.0, min(times) - self._steady()) if times else math.inf

    def _open(self) -> UsageIndex:
        self._before = [part.reached for part in self.parts]
        index = self._opened()
        with self._moved:
            self._index = index
        if index.partitions() - {part.number for part in self.parts}:
            index.begin_anew()  # it is of a ledger with more
        self._due = set(range(len(self.parts)))
        return index

    def _opened(self) -> UsageIndex:
        """Return the index in its file; one of this process alone where the file is unfit."""
        if self._path is None:
            return UsageIndex.temporary()
        if self._unfit is None:
            try:
                if self._shared_log:
                    self._alone = FileAlone(self._path)
                return UsageIndex.open(self._path)
            except Taken as error:
                self._unfit = str(error)
                self._look_at = self._steady() + _TAKEN_S
            except Unfit as error:
                self._unfit = str(error)
        self._tell(self._unfit)
        return UsageIndex.temporary(self._path if self._look_at is not None else None)

    def _is_file_free(self) -> bool:
        """Return whether the process that had the file has let go of it; look now and then."""
        if self._path is None or self._look_at is None or self._steady() < self._look_at:
            return False
        try:
            FileAlone(self._path).release()
        except Unfit:
            self._look_at = self._steady() + _TAKEN_S
            return False
        self._unfit = self._look_at = None
        return True

    def finish(self) -> None:
        """Let go of the index and the logs."""
        with self._moved:
            index, self._index = self._index, None
            self._moved.notify_all()
        for part in self.parts:
            part.let_go()
        if index is not None:
            index.close()
        alone, self._alone = self._alone, None
        if alone is not None:
            alone.release()

    def _tell(self, why: str) -> None:
        if self._trouble != why:
            _log.warning("usage_index_trouble", why=why, then="decisions go on; usage may wait")
        self._trouble = why

    def _remove_damaged(self) -> None:
        """Remove a damaged index, and never another program's file."""
        if self._path is None:
            return
        try:
            if is_index(self._path):
                mode = file_mode(self._path)
                for suffix in _FILES:
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
                if mode is not None:  # the new one is for those who had the old one
                    make_private(self._path, mode)
        except OSError as error:
            self._unfit = f"{self._path} is damaged and cannot be removed: {error}"


def _in_words(error: Exception) -> str:
    if isinstance(error, Unfit | BudgetError):
        return str(error)
    if isinstance(error, apsw.Error):
        return f"the index cannot be used: {type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error}"
