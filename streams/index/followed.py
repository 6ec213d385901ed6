"""One partition's log, and how far an index has taken it in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from accountant.partition import hash_of
from accountant.views.tallies import LogDiffers
from streams.index.usage_index import NOTHING, Log, Reached, Unfit, UsageIndex
from streams.logs import get_logger

_log = get_logger(__name__)
SLICE: Final = 4_000
"""Decisions of one transaction: keys that come again in it cost nothing more."""
_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 5.0
_MOST_ANEW: Final = 3


class Followed:
    """One partition of a `Follower`, whose thread alone calls it; any thread reads its attributes.

    Args:
        open_log: called in the follower's thread.
        alone: nobody else writes to the index.
        most: decisions of one transaction.
        steady: the clock of `again_at`, in seconds.

    Attributes:
        reached: the last decision taken in.
        placed: the log was seen to have that decision, since the index was opened.
        whole: the log's end was reached once since this process began.
        trouble: why the log cannot be read, in words; None while it can.
        again_at: before that time, by the steady clock, it is not read again; None while it
            can be read.
    """

    def __init__(
        self,
        number: int,
        open_log: Callable[[int], Log],
        *,
        alone: bool = False,
        most: int = SLICE,
        steady: Callable[[], float],
    ) -> None:
        self.number = number
        self._open_log = open_log
        self._alone = alone
        self._most = most
        self._steady = steady
        self._log: Log | None = None
        self._times_anew = 0
        self._is_ours = False  # this process has taken in or found decisions of its log
        self._differed: str | None = None
        self._retry = _RETRY_S
        self.reached = NOTHING
        self.placed = False
        self.whole = False
        self.trouble: str | None = None
        self.again_at: float | None = None

    def take_slice(self, index: UsageIndex) -> bool:
        """Take in the next decisions; return whether they were the log's last ones.

        Raises:
            Unfit: somebody writes another ledger's decisions to the index.
            BudgetError: the log cannot be read, or is damaged.
            apsw.Error: the index cannot be used.
        """
        if self._log is None:
            self._log = self._open_log(self.number)
        if not self.placed:
            self._place(index, self._log)
        if self.reached == NOTHING:
            self._move(index.begin(self.number, self._log))
        values = self._log.read(self.reached.sequence + 1, self._most)
        if not values:
            if index.reached(self.number) != self.reached:  # another process has written to it
                self._place(index, self._log)
                return False
            self._succeed(is_end=True)
            return True
        try:
            found = index.take(self.number, self.reached, values)
        except LogDiffers as error:
            if self._differed == str(error):
                raise  # from its first decision on: the log contradicts itself
            self._differed = str(error)
            self._begin_anew(index, str(error))
            self._move(NOTHING)
            return False
        if found.head != hash_of(values[-1]):
            self._place(index, self._log)  # another process writes to it, too
            return False
        self._move(found)
        # What has come since has woken the thread again: it waits, to take in many at once. On a
        # busy ledger each look at the end would find a few more.
        is_end = len(values) < self._most
        self._succeed(is_end=is_end)
        return is_end

    def fail(self, why: str) -> None:
        """Note that the log cannot be read, and let go of it for a while."""
        if self.trouble != why:
            _log.warning("usage_index_trouble", partition=self.number, why=why, then="tried again")
        self.trouble, self.placed = why, False
        self.again_at = self._steady() + self._retry
        self._retry = min(2 * self._retry, _MOST_RETRY_S)
        self.close()

    def let_go(self) -> None:
        """Note that the index is closed; what it says is looked at again once it is open."""
        self.placed = False
        self.close()

    def close(self) -> None:
        """Let go of the log."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _succeed(self, *, is_end: bool) -> None:
        self.whole |= is_end
        self.trouble = self.again_at = None
        self._retry = _RETRY_S

    def _place(self, index: UsageIndex, log: Log) -> None:
        """Find what the index has reached; have it begin anew where it is of another log."""
        found = index.reached(self.number)
        if found != NOTHING:
            begin = log.read(0, 1)
            is_other = bool(begin) and found.log != hash_of(begin[0])
            if self._is_ours and is_other and not self._alone:
                _share_no_more(index)
            values = log.read(found.sequence, 1)
            if not values or hash_of(values[0]) != found.head:
                self._begin_anew(index, f"the log has another decision {found.sequence}, or none")
                found = NOTHING
        self._move(found)
        self.placed = True

    def _begin_anew(self, index: UsageIndex, why: str) -> None:
        """Have the index forget this partition."""
        self._times_anew += 1
        if index.path is not None and self._times_anew > _MOST_ANEW and not self._alone:
            _share_no_more(index)
        where = {"path": str(index.path), "partition": self.number}
        _log.warning("usage_index_begins_anew", **where, why=why)
        index.begin_anew(self.number)

    def _move(self, reached: Reached) -> None:
        self._is_ours |= reached != NOTHING
        self.reached = reached


def _share_no_more(index: UsageIndex) -> None:
    raise Unfit(f"{index.path} is written for another ledger, too: give each its own")
