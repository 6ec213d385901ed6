"""A background task that adds the commits of a log to an index.

    deciding thread        follower's thread                      reader's thread
    ---------------        -----------------                      ---------------
    commit
    wake() ------------->  step, after a pause:
                           read a slice of the log       <------- read(upto): hurry, wait
                           count it, write it, say how far ------> the index

The ledger never waits for the index. `trouble` describes what is wrong with the index; the task
retries it, or works without a file. It reads the partitions in turn, so an unreadable log does not
hold up the others.
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
from streams.error_words import words_of
from streams.errors import Unavailable
from streams.files.private_files import file_mode, make_private
from streams.index.beginning import IndexPosition
from streams.index.cursor import SLICE, LogCursor
from streams.index.index_lock import IndexInUse, IndexLock
from streams.index.rows import Rows
from streams.index.usage_index import (
    IndexMoved,
    UnusableIndex,
    UsageIndex,
    is_index,
)
from streams.log.decision_log import DecisionLog
from streams.tasks.background import THREADS, Background
from streams.telemetry.logs import get_logger

T = TypeVar("T")

_log = get_logger(__name__)
PAUSE_S: Final = 0.5
"""Pause between two writes without a reader: a commit of the index then adds many decisions."""
_YIELD_S: Final = 0.001  # after each slice, so that others get the interpreter
_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 60.0
_TAKEN_S: Final = 5.0  # between two checks whether another process has released the file
_FILES: Final = ("", "-wal", "-shm", "-journal")


class Indexer:
    """Keeps the index of a log up to date. Its steps start with the first `wake` or `read`.

    Args:
        log: read in steps, and closed with the index; nobody else reads it.
        path: of the index; None for a temporary index of this process.
        partitions: number of partitions of the log.
        shared_log: other processes may index this log, too. The file is then locked. A reader does
            not know the last decision, so it waits until the end of the log was reached once.
        limit: decisions of one transaction.
        background: calls the steps.
    """

    def __init__(
        self,
        log: DecisionLog,
        path: Path | None,
        *,
        partitions: int = 1,
        shared_log: bool = False,
        limit: int = SLICE,
        background: Background = THREADS,
    ) -> None:
        self._log = log
        self._path = path
        self._shared_log = shared_log
        self.parts = [
            LogCursor(number, log, alone=shared_log, limit=limit, steady=background.steady)
            for number in range(partitions)
        ]
        self._grown = set[int]()
        self._due = set[int]()  # partitions whose log's end was not reached
        self._woken = False
        self._hurried = False
        self._next_at: float | None = None
        self._before: list[IndexPosition] = []
        self._retry = _RETRY_S
        self._moved = threading.Condition()
        self._index: UsageIndex | None = None
        self._steady = background.steady
        self._runner = background.runner(self, "usage-index")
        self._unfit: str | None = None
        self._trouble: str | None = None
        self._lock: IndexLock | None = None
        self._look_at: float | None = None  # for a file that another process has

    @property
    def trouble(self) -> str | None:
        """What is wrong with the index; None if nothing is."""
        if self._trouble is not None:
            return self._trouble
        troubles = (self._named(part, part.trouble) for part in self.parts if part.trouble)
        return next(troubles, None)

    def wake(self, partition: int = 0) -> None:
        """Report that the log has grown. Returns at once."""
        # Add to the set first: a step clears the mark before it empties the set.
        self._grown.add(partition)
        if not self._woken:
            self._woken = True
            self._runner.wake()

    def start(self) -> None:
        """Begin the steps, unless they have begun or `close` was called."""
        self._runner.start()

    def read(
        self, until_sequences: Mapping[int, int], take: Callable[[Rows], T], *, wait: float
    ) -> T:
        """Wait until the index has some decisions, and return what `take` reads from it.

        Args:
            until_sequences: the number of a decision by partition; -1 if it is not known.

        Raises: Unavailable: this takes longer than `wait` seconds, or fails.
        """
        until = self._steady() + wait
        while True:
            index, reached = self._wait(until_sequences, until)
            try:
                with index.at(reached) as rows:
                    return take(rows)
            except IndexMoved:  # by another process: wait for this one's thread to look at the log
                self._ask(until_sequences)
                if self._steady() >= until:
                    raise Unavailable("the index of usage is being written to: ask again") from None
                time.sleep(_YIELD_S)
            except apsw.Error as error:  # closed, locked or damaged meanwhile
                raise Unavailable(f"the index of usage cannot be read: {error}") from error

    def _wait(
        self, until_sequences: Mapping[int, int], until: float
    ) -> tuple[UsageIndex, Mapping[int, IndexPosition]]:
        self.start()
        with self._moved:
            while (behind := self._behind(until_sequences)) is not None or self._index is None:
                self._ask(until_sequences)
                left = until - self._steady()
                if left <= 0 or self._runner.is_stopping:
                    raise Unavailable(self._explain(behind, until_sequences))
                self._moved.wait(min(left, _RETRY_S))
            return self._index, {number: self.parts[number].reached for number in until_sequences}

    def _behind(self, until_sequences: Mapping[int, int]) -> LogCursor | None:
        """Return the first partition that a reader must wait for."""
        for number, until_sequence in until_sequences.items():
            part = self.parts[number]
            is_whole = part.whole or not self._shared_log
            if not part.located or not is_whole or part.reached.sequence < until_sequence:
                return part
        return None

    def _explain(self, behind: LogCursor | None, until_sequences: Mapping[int, int]) -> str:
        if behind is None:
            return f"the index of usage cannot be read: {self._trouble or 'it is being opened'}"
        until_sequence = until_sequences[behind.number]
        of = f" of {until_sequence}" if until_sequence > behind.reached.sequence else ""
        at = self._named(behind, f"it has reached decision {behind.reached.sequence}{of}")
        why = self._trouble or behind.trouble or "it is being built"
        return f"the index of usage is behind: {at}: {why}"

    def _named(self, part: LogCursor, what: str | None) -> str:
        return f"partition {part.number}: {what}" if len(self.parts) > 1 else str(what)

    def _ask(self, partitions: Iterable[int]) -> None:
        self._grown.update(partitions)
        self._hurried = self._woken = True
        self._runner.wake()

    def close(self, within: float = 5.0) -> None:
        """Stop, perhaps in the middle of the log; the next process continues from there."""
        self._runner.stop()
        with self._moved:
            self._moved.notify_all()
        self._runner.join(within)

    def step(self) -> float | None:
        """Add decisions to the index for a while, if it is time to."""
        if not self._hurried and (pause := self._pause()) > 0:
            return None if math.isinf(pause) else pause
        self._woken = self._hurried = False
        is_open = False
        try:
            is_open = self._follow()
        except Exception as error:  # the ledger must work without an index, whatever happens
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
        if self._next_at is None:  # a command that decides once and ends never touches the index
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
        elif isinstance(error, UnusableIndex):
            self._unfit = str(error)

    def _follow(self) -> bool:
        """Add the decisions that are due; return whether the index stays open."""
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
        """Add slices of the partitions in turn; return the partitions that are not at the end."""
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
        """Return the seconds until the next retry, infinity without one."""
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
            index.start_again()  # it belongs to a ledger with more partitions
        self._due = set(range(len(self.parts)))
        return index

    def _opened(self) -> UsageIndex:
        """Return the index in its file, or a temporary one if the file cannot be used."""
        if self._path is None:
            return UsageIndex.temporary()
        if self._unfit is None:
            try:
                if self._shared_log:
                    self._lock = IndexLock(self._path)
                return UsageIndex.open(self._path)
            except IndexInUse as error:
                self._unfit = str(error)
                self._look_at = self._steady() + _TAKEN_S
            except UnusableIndex as error:
                self._unfit = str(error)
        self._tell(self._unfit)
        return UsageIndex.temporary(self._path if self._look_at is not None else None)

    def _is_file_free(self) -> bool:
        """Return whether the process that had the file has released it; checks now and then."""
        if self._path is None or self._look_at is None or self._steady() < self._look_at:
            return False
        try:
            IndexLock(self._path).release()
        except UnusableIndex:
            self._look_at = self._steady() + _TAKEN_S
            return False
        self._unfit = self._look_at = None
        return True

    def finish(self) -> None:
        """Close the index and the log; the next opening checks the positions in it again."""
        with self._moved:
            index, self._index = self._index, None
            self._moved.notify_all()
        for part in self.parts:
            part.located = False
        self._log.close()
        if index is not None:
            index.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _tell(self, why: str) -> None:
        if self._trouble != why:
            _log.warning("usage_index_trouble", why=why, then="decisions continue; usage may lag")
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
                if mode is not None:  # the new file gets the permissions of the old one
                    make_private(self._path, mode)
        except OSError as error:
            self._unfit = f"{self._path} is damaged and cannot be removed: {error}"


def _in_words(error: Exception) -> str:
    if isinstance(error, UnusableIndex):
        return str(error)
    prefix = "the index cannot be used: " if isinstance(error, apsw.Error) else ""
    return prefix + words_of(error)
