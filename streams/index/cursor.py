"""Adds one partition's log to an index, and tracks how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from accountant.partition import hash_of
from accountant.views.tallies import LogDiffers
from streams.index.beginning import IndexPosition
from streams.index.usage_index import NOTHING, UnusableIndex, UsageIndex
from streams.log.decision_log import DecisionLog
from streams.log.single_decisions import has_decision
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
SLICE: Final = 4_000
"""Decisions of one transaction: keys that come again in it cost nothing more."""
_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 5.0
_MAX_RESTARTS: Final = 3


class LogCursor:
    """Adds the log of one partition to an index, slice by slice.

    Only the indexer's thread calls it; any thread may read its attributes.

    Args:
        log: of which this partition is read, in the indexer's thread alone.
        alone: no other process writes to the index.
        limit: decisions of one transaction.
        steady: the clock of `again_at`, in seconds.

    Attributes:
        reached: the last decision taken in.
        located: the log was seen to have that decision, since the index was opened.
        whole: the log's end was reached once since this process began.
        trouble: why the log cannot be read, in words; None while it can.
        again_at: before that time, by the steady clock, it is not read again; None while it
            can be read.
    """

    def __init__(
        self,
        number: int,
        log: DecisionLog,
        *,
        alone: bool = False,
        limit: int = SLICE,
        steady: Callable[[], float],
    ) -> None:
        self.number = number
        self._log = log
        self._alone = alone
        self._most = limit
        self._steady = steady
        self._restarts = 0
        self._is_ours = False  # this process has taken in or found decisions of its log
        self._differed: str | None = None
        self._retry = _RETRY_S
        self.reached = NOTHING
        self.located = False
        self.whole = False
        self.trouble: str | None = None
        self.again_at: float | None = None

    def take_slice(self, index: UsageIndex) -> bool:
        """Take in the next decisions; return whether they were the log's last ones.

        Raises:
            UnusableIndex: somebody writes another ledger's decisions to the index.
            BudgetError: the log cannot be read, or is damaged.
            apsw.Error: the index cannot be used.
        """
        if not self.located:
            self._place(index)
        if self.reached == NOTHING:
            self._move(index.begin(self.number, self._log))
        values = self._log.read(self.number, self.reached.sequence + 1, self._most)
        if not values:
            if index.reached(self.number) != self.reached:  # another process has written to it
                self._place(index)
                return False
            self._succeed(is_end=True)
            return True
        try:
            found = index.take(self.number, self.reached, values)
        except LogDiffers as error:
            if self._differed == str(error):
                raise  # from its first decision on: the log contradicts itself
            self._differed = str(error)
            self._start_again(index, str(error))
            self._move(NOTHING)
            return False
        if found.head != hash_of(values[-1]):
            self._place(index)  # another process writes to it, too
            return False
        self._move(found)
        # Newer decisions have woken the thread again. It waits, to add many at once: on a busy
        # ledger each read at the end would find only a few.
        is_end = len(values) < self._most
        self._succeed(is_end=is_end)
        return is_end

    def fail(self, why: str) -> None:
        """Record that the log cannot be read, and retry later as if it were another one."""
        if self.trouble != why:
            _log.warning("usage_index_trouble", partition=self.number, why=why, then="tried again")
        self.trouble, self.located = why, False
        self.again_at = self._steady() + self._retry
        self._retry = min(2 * self._retry, _MOST_RETRY_S)
        self._log.forget(self.number)

    def _succeed(self, *, is_end: bool) -> None:
        self.whole |= is_end
        self.trouble = self.again_at = None
        self._retry = _RETRY_S

    def _place(self, index: UsageIndex) -> None:
        """Find the index's position in the log; clear the index if it belongs to another log."""
        found = index.reached(self.number)
        if found != NOTHING:
            begin = self._log.read(self.number, 0, 1)
            is_other = bool(begin) and found.log != hash_of(begin[0])
            if self._is_ours and is_other and not self._alone:
                _fail_shared(index)
            if not has_decision(self._log, self.number, found.sequence, found.head):
                self._start_again(index, f"the log has another decision {found.sequence}, or none")
                found = NOTHING
        self._move(found)
        self.located = True

    def _start_again(self, index: UsageIndex, why: str) -> None:
        """Remove this partition from the index."""
        self._restarts += 1
        if index.path is not None and self._restarts > _MAX_RESTARTS and not self._alone:
            _fail_shared(index)
        where = {"path": str(index.path), "partition": self.number}
        _log.warning("usage_index_starts_again", **where, why=why)
        index.start_again(self.number)

    def _move(self, reached: IndexPosition) -> None:
        self._is_ours |= reached != NOTHING
        self.reached = reached


def _fail_shared(index: UsageIndex) -> None:
    raise UnusableIndex(f"{index.path} is written for another ledger, too: give each its own")
