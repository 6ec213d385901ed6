"""A thread that keeps an index behind the commits of a log that this process can read.

    deciding thread        follower's thread                      reader's thread
    ---------------        -----------------                      ---------------
    commit                 wait: woken, then a pause
    wake() ------------->  read a slice of the log       <------- read(upto): hurry, wait
                           count it, write it, say how far ------> the index

Nothing here decides, and nothing that decides waits for it. Whatever goes wrong with the index
is `trouble`, in words, and is tried again or done without.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import apsw

from accountant.errors import BudgetError
from accountant.partition import hash_of
from accountant.views.tallies import LogDiffers
from streams.errors import Unavailable
from streams.index.rows import Rows
from streams.index.usage_index import (
    NOTHING,
    Log,
    Moved,
    Reached,
    Unfit,
    UsageIndex,
    is_index,
)
from streams.logs import get_logger

T = TypeVar("T")

_log = get_logger(__name__)
PAUSE_S: Final = 0.5
"""Between two writes while nobody asks: a commit of the index then takes many decisions."""
_SLICE: Final = 4_000  # in one transaction: keys that come again in it cost nothing more
_YIELD_S: Final = 0.001  # after each slice, so that others get the interpreter
_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 60.0
_MOST_ANEW: Final = 3
_FILES: Final = ("", "-wal", "-shm", "-journal")


class Follower:
    """Keeps the index of one partition. Its thread begins at the first `wake` or `read`.

    Args:
        open_log: called in the follower's thread.
        path: of the index.

    Attributes:
        trouble: what is wrong with the index, in words; None while nothing is.
        reached: the last decision taken in.
    """

    def __init__(self, open_log: Callable[[], Log], path: Path, *, partition: int = 0) -> None:
        self._open_log = open_log
        self._path = path
        self._partition = partition
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._hurry = threading.Event()
        self._moved = threading.Condition()
        self._index: UsageIndex | None = None
        self._thread: threading.Thread | None = None
        self._times_anew = 0
        self._is_ours = False  # this process has taken in or found decisions of its log
        self._unfit: str | None = None
        self.trouble: str | None = None
        self.reached = NOTHING

    def wake(self) -> None:
        """Say that the log has grown. Returns at once; to be called by one thread at a time."""
        if not self._woken.is_set():
            self._woken.set()
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        with self._moved:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="usage-index", daemon=True)
                self._thread.start()

    def read(self, upto: int, take: Callable[[Rows], T], *, wait: float) -> T:
        """Return what `take` makes of the index, once that has taken in decision `upto`.

        Raises: Unavailable: that takes longer than `wait` seconds, or fails.
        """
        until = time.monotonic() + wait
        while True:
            index, reached = self._wait(upto, until)
            try:
                with index.at(reached, self._partition) as rows:
                    return take(rows)
            except Moved:  # by another process: wait for this one's thread to look at the log
                self._hurry.set()
                self._woken.set()
                if time.monotonic() >= until:
                    raise Unavailable("the index of usage is being written to: ask again") from None
                time.sleep(_YIELD_S)
            except apsw.Error as error:  # closed, locked or damaged meanwhile
                raise Unavailable(f"the index of usage cannot be read: {error}") from error

    def _wait(self, upto: int, until: float) -> tuple[UsageIndex, Reached]:
        self._start()
        with self._moved:
            while self._index is None or self.reached.sequence < upto:
                self._hurry.set()
                self._woken.set()
                left = until - time.monotonic()
                if left <= 0 or self._stopping.is_set():
                    why = self.trouble or "it is being built"
                    at = f"it has reached decision {self.reached.sequence} of {upto}"
                    raise Unavailable(f"the index of usage is behind: {at}: {why}")
                self._moved.wait(min(left, _RETRY_S))
            return self._index, self.reached

    def close(self) -> None:
        """End the thread, in the middle of the log; the next process goes on from there."""
        self._stopping.set()
        self._woken.set()
        self._hurry.set()
        with self._moved:
            thread = self._thread
            self._moved.notify_all()
        if thread is not None:
            thread.join(timeout=5)

    def _run(self) -> None:
        self._hurry.wait(PAUSE_S)  # a command that decides once and ends leaves the index alone
        retry = _RETRY_S
        while not self._stopping.is_set():
            before = self.reached
            try:
                self._follow()
            except Exception as error:  # whatever it is, the ledger goes on without an index
                self._tell(_explained(error))
                if isinstance(error, apsw.CorruptError | apsw.NotADBError):
                    self._remove_damaged()
                elif isinstance(error, apsw.ReadOnlyError):
                    self._unfit = f"{self._path} cannot be written: {error}"
            finally:
                self._let_go()
            retry = _RETRY_S if self.reached != before else min(2 * retry, _MOST_RETRY_S)
            self._hurry.clear()
            if not self._stopping.is_set():
                self._hurry.wait(retry)

    def _follow(self) -> None:
        """Keep up with the log until `close`."""
        log = self._open_log()
        try:
            index = self._opened()
            place = self._place(index, log)
            self._moved_to(index, place)
            while not self._stopping.is_set():
                self._woken.clear()
                self._hurry.clear()
                place = self._catch_up(index, log, place)
                self.trouble = self._unfit
                self._woken.wait()
                self._hurry.wait(PAUSE_S)
        finally:
            log.close()

    def _catch_up(self, index: UsageIndex, log: Log, place: Reached) -> Reached:
        while not self._stopping.is_set():
            if place == NOTHING:
                place = index.begin(self._partition, log)
            values = log.read(place.sequence + 1, _SLICE)
            if not values:
                found = index.reached(self._partition)
                if found == place:
                    return place
                place = self._place(index, log)  # another process has written to it
                self._moved_to(index, place)
                continue
            try:
                found = index.take(self._partition, place, values)
            except LogDiffers as error:
                self._begin_anew(index, str(error))
                found = NOTHING
            is_end = len(values) < _SLICE
            if found.head != hash_of(values[-1]):
                found, is_end = self._place(index, log), False  # another process writes to it, too
            place, self.trouble = found, self._unfit
            self._moved_to(index, place)
            if is_end:
                # What has come since has woken this thread again: it waits, to take in many at
                # once. On a busy ledger each look at the end would find a few more.
                return place
            self._stopping.wait(_YIELD_S)
        return place

    def _place(self, index: UsageIndex, log: Log) -> Reached:
        """Return what the index has reached; have it begin anew where it is of another log."""
        found = index.reached(self._partition)
        if found == NOTHING:
            return found
        begin = log.read(0, 1)
        if self._is_ours and begin and found.log != hash_of(begin[0]):
            self._share_no_more(index)
        values = log.read(found.sequence, 1)
        if not values or hash_of(values[0]) != found.head:
            self._begin_anew(index, f"the log has another decision {found.sequence}, or none")
            return NOTHING
        return found

    def _share_no_more(self, index: UsageIndex) -> None:
        self._unfit = f"{index.path} is written for another ledger, too: give each its own"
        raise Unfit(self._unfit)

    def _begin_anew(self, index: UsageIndex, why: str) -> None:
        self._times_anew += 1
        if index.path is not None and self._times_anew > _MOST_ANEW:
            self._share_no_more(index)
        _log.warning("usage_index_begins_anew", path=str(index.path), why=why)
        index.begin_anew()

    def _opened(self) -> UsageIndex:
        """Return the index in its file; one of this process alone where the file is unfit."""
        if self._unfit is None:
            try:
                return UsageIndex.open(self._path)
            except Unfit as error:
                self._unfit = str(error)
        self._tell(self._unfit)
        return UsageIndex.temporary()

    def _moved_to(self, index: UsageIndex, place: Reached) -> None:
        with self._moved:
            self._is_ours |= place != NOTHING
            self._index, self.reached = index, place
            self._moved.notify_all()

    def _let_go(self) -> None:
        with self._moved:
            index, self._index = self._index, None
            self._moved.notify_all()
        if index is not None:
            index.close()

    def _tell(self, why: str) -> None:
        if self.trouble != why:
            _log.warning("usage_index_trouble", why=why, then="decisions go on; usage may wait")
        self.trouble = why

    def _remove_damaged(self) -> None:
        """Remove a damaged index, and never another program's file."""
        try:
            if is_index(self._path):
                for suffix in _FILES:
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        except OSError as error:
            self._unfit = f"{self._path} is damaged and cannot be removed: {error}"


def _explained(error: Exception) -> str:
    if isinstance(error, Unfit | BudgetError):
        return str(error)
    if isinstance(error, apsw.Error):
        return f"the index cannot be used: {type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error}"
