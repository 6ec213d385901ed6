"""Signs checkpoints of a ledger asynchronously, and compares the log with them at start.

    deciding thread                 the task's thread
    ---------------                 -----------------
    commit, then wake() --------->  step: `seconds` after the first commit without a checkpoint,
                                    sign the last committed head, and store it

A head is signed only after its commit has returned. A crash in between leaves an older checkpoint,
never one of a decision that was not made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Final

from accountant.partition import Partition
from accountant.times import iso
from streams.clock import DAY_MS, WARN_AHEAD_MS, Clock
from streams.errors import Refused, Unavailable
from streams.evidence.checkpoint_troubles import (
    copies_beside,
    describe_lost,
    other_key,
    other_ledgers,
    other_troubles,
)
from streams.evidence.copies import find_any_lost, find_copied
from streams.evidence.log_end import LogEnd
from streams.evidence.rollbacks import LostDecisions, find_fork
from streams.evidence.signed_checkpoint import Checkpoint
from streams.evidence.store import CheckpointStore, StoredCheckpoints
from streams.tasks.background import THREADS, Background
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_STOP_S: Final = 5.0
_REST: Final = 10  # intervals between two comparisons of a ledger that decides nothing
_SHORTEST_REST_S: Final = 1.0


class Checkpointer:
    """Signs and stores the checkpoints of one partition's log.

    Args:
        open_store: opens the store; called again until it succeeds.
        digest: as of `rollbacks.lost_of`; may wait.
        at_once: `begin` may wait for `digest`; else it compares only the last decision, and the
            first step compares the rest.
        seconds: the minimum time between two checkpoints.
        required: refuse to decide while the checkpoints cannot be read.
        compares_clock: warn if the clock is far ahead of the newest checkpoint. For a file, which
            has no other clock to compare with.
        missing: returns why no checkpoint is in the place of a log with decisions, None if one is.
            Called before the store is opened, which would make its directory and key.
        send: gets each stored checkpoint with its signed text; must not block.
        background: calls the steps.

    Attributes:
        notes: warnings for people, shown by `/readyz`.
        newest: the signed checkpoint stored last, None before the first.
        key_differs: the signing key is not the log's.
        others: the number of ledgers that this one has replaced, by their checkpoints.
    """

    def __init__(
        self,
        open_store: Callable[[], CheckpointStore],
        digest: Callable[[int], str | None],
        clock: Clock,
        *,
        seconds: float,
        required: bool,
        compares_clock: bool = False,
        missing: Callable[[], str | None] = lambda: None,
        at_once: bool = True,
        send: Callable[[Checkpoint, bytes], None] | None = None,
        background: Background = THREADS,
    ) -> None:
        self._open_store = open_store
        self._digest = digest
        self._at_once = at_once
        self._clock = clock
        self._seconds = seconds
        self._required = required
        self._compares_clock = compares_clock
        self._missing = missing
        self._clock_note: str | None = None
        self._missing_note: str | None = None
        self._had = False  # its place has had checkpoints of this log
        self._send = send
        self.newest: bytes | None = None
        self.key_differs = False
        self.others = 0
        self._store: CheckpointStore | None = None
        self._compared = False
        self._head: LogEnd | None = None
        self._begun: LogEnd | None = None  # the head at the start
        self._done: LogEnd | None = None
        self._is_behind = False  # a head waits to be signed
        self._behind_since: float | None = None  # the first commit without a stored checkpoint
        self._due: float | None = None
        self._steady = background.steady
        self._runner = background.runner(self, "ledger-checkpoints")
        self._own: tuple[Checkpoint, ...] = ()  # those of this path, or the first of them
        self._rest_until = 0.0
        self._lost: Refused | None = None
        self._must_sign = False  # the last head, so that the other process finds it, too
        self._found_late = False  # by a step after the start
        self._trouble: str | None = None
        self._other_troubles: list[str] = []
        self._signing = threading.Lock()

    @property
    def notes(self) -> list[str]:
        first = (self._trouble, self._missing_note, self._clock_note)
        return [note for note in first if note is not None] + self._other_troubles

    @property
    def refused(self) -> str | None:
        """Why nothing can be decided any more: the log has lost decisions."""
        return None if self._lost is None else str(self._lost)

    @property
    def overdue_seconds(self) -> float:
        """By how much the oldest commit without a checkpoint exceeds the time between two.

        0 once decisions have been lost: the partition is halted, and nothing is left to sign.
        """
        since = self._behind_since
        if since is None or self._lost is not None:
            return 0.0
        return max(0.0, self._steady() - since - self._seconds)

    @property
    def is_running(self) -> bool:
        """Whether a checkpoint may still be stored."""
        return self._runner.is_running

    def begin(self, partition: Partition) -> None:
        """Compare the log with its newest checkpoint, and begin to sign new ones.

        Raises: Refused: as `compare`.
        """
        self.compare(partition)
        self.wake(partition)

    def compare(self, partition: Partition) -> None:
        """Compare the log with its newest checkpoint, as whoever writes to it must first.

        Raises: Refused: the log has lost decisions, or cannot be compared and must be.
        """
        if self._found_late and self._lost is not None:
            raise self._lost  # the comparison below would not find it
        self._head = self._begun = LogEnd.of(partition)
        self._lost, self._compared = None, False
        try:
            if self._at_once:
                self._compare(self._head)
            else:
                self._look(self._head, {self._head.sequence: self._head.head}.get)
        except Unavailable as error:
            self._report(str(error))
            if self._required:
                raise Refused(
                    f"{error}; nothing is decided until the log has been compared with its "
                    "checkpoints, because ACCOUNTANT_CHECKPOINTS_REQUIRED is set"
                ) from error

    def _compare(self, head: LogEnd) -> CheckpointStore:
        """Compare the log with its newest checkpoint, unless that was done.

        Raises: Unavailable: it cannot be compared now. Refused: the log has lost decisions.
        """
        self._rest_until = self._steady() + max(_REST * self._seconds, _SHORTEST_REST_S)
        if self._store is not None and self._compared:
            self._check_place(self._store)
            self._compare_news(self._store, head)
            return self._store
        store = self._look(head, self._digest)
        self._compared = True
        return store

    def _check_place(self, store: CheckpointStore) -> None:
        """Raises: Unavailable: the place had checkpoints of this log, and has none now."""
        if self._had and not store.has_own():
            raise Unavailable(
                f"{store.folder} had checkpoints of this log, and has none now: is its disk "
                "mounted? None is stored until they are back. To begin others, restart"
            )

    def _compare_news(self, store: CheckpointStore, head: LogEnd) -> None:
        """Compare the log with what other processes have stored since.

        Raises: as `_compare`.
        """
        lost = find_fork(store.newer(head.key, head.sequence, head.branch), self._digest)
        if lost is None and (others := store.news_elsewhere(head.key)):
            lost = find_copied(head.sequence, head.branch, self._own, others, self._digest)
        # Both logs were granted from: the process of the other one must find this log, too.
        self._must_sign = lost is not None
        self._check(lost, head)

    def _look(self, head: LogEnd, digest: Callable[[int], str | None]) -> CheckpointStore:
        """Compare the log with its newest checkpoint, as far as `digest` knows its decisions.

        Raises: as `_compare`.
        """
        if self._store is not None:
            self._check_place(self._store)
        elif head.sequence > 0:
            self._check_missing()
        try:
            store = self._store or self._open_store()
        except Refused as error:  # such as a key that other users may read
            raise Unavailable(str(error)) from error
        stored = store.load(head.key)
        self._store, self._own = store, stored.checkpoints
        self._had = self._had or bool(stored.checkpoints)
        self._report_stored(stored, store)
        if self._compares_clock:
            self._compare_clock(stored)
        at, seen = (head.sequence, head.branch), (stored.checkpoints, stored.elsewhere)
        try:
            lost = find_any_lost(*at, *seen, digest)
        except Unavailable:
            # Even if its decisions cannot be read now, a log that is too short must not decide.
            self._check(find_any_lost(*at, *seen, lambda _: None), head)
            raise
        self._must_sign = lost is not None and lost.copy is not None and head != self._begun
        self._check(lost, head)
        return store

    def _check_missing(self) -> None:
        """Report a log with decisions if no checkpoint of it is in its place.

        Raises: Refused: one must be there.
        """
        why = self._missing()
        if why is not None and self._required:
            raise Refused(why)
        if why is not None and why != self._missing_note:
            _log.error("checkpoints_missing", why=why, then="decisions go on")
        self._missing_note = why

    def _compare_clock(self, stored: StoredCheckpoints) -> None:
        """Warn if the clock is far ahead of the newest checkpoint; only a person knows which is so.

        After a long pause that is right, so nothing is refused; the next checkpoint ends it.
        """
        self._clock_note = None
        now = self._clock.now()
        own = stored.checkpoints[-1:]
        seen = own or tuple(chain.from_iterable(each.checkpoints for each in stored.elsewhere))
        at = max((each.at for each in seen), default=now)
        if now - at <= WARN_AHEAD_MS:
            return
        self._clock_note = (
            f"this machine's clock is {(now - at) / DAY_MS:.1f} days ahead of the newest "
            f"checkpoint: {iso(now)} now, {iso(at)} then. If nothing was decided in between, this "
            "is right; otherwise set the clock"
        )
        _log.warning("clock_ahead_of_checkpoint", why=self._clock_note, then="decides")

    def _report_stored(self, stored: StoredCheckpoints, store: CheckpointStore) -> None:
        """Report troubles of the store; log an error for a possible attack."""
        self.key_differs, self.others = stored.log_key is not None, len(stored.others)
        for note in copies_beside(stored):
            if note not in self._other_troubles:
                _log.warning("ledger_copied", ledger=store.ledger, why=note, then="decisions go on")
        alarms = [*other_key(stored, store), *other_ledgers(stored, store)]
        for event, why in alarms:
            if why not in self._other_troubles:
                _log.error(event, ledger=store.ledger, why=why, then="decisions go on")
        self._other_troubles = [*other_troubles(stored, store), *(why for _, why in alarms)]

    def _check(self, lost: LostDecisions | None, head: LogEnd) -> None:
        """Raises: Refused: the log has lost decisions, or another one is signed, too."""
        if lost is not None:
            options = "" if self._store is None else self._store.options
            self._lost = Refused(describe_lost(lost, head, options))
            raise self._lost

    def wake(self, partition: Partition) -> None:
        """Report that the log has grown, before anybody is answered. Call it in one thread.

        Beside a copy it signs at once, and compares before and after that: of two processes that
        do so, one at most answers.

        Raises: Refused: the checkpoints were out of reach at the start, and show a loss now.
        """
        if self._lost is not None:
            raise self._lost
        self._head = LogEnd.of(partition)
        if self._behind_since is None:
            self._behind_since = self._steady()
        was_behind, self._is_behind = self._is_behind, True
        if self._store is not None and self._store.has_copy():
            self._is_behind = False
            self.finish()
            self._rest_until = 0.0
            self._rest(self._steady())
            if self._lost is not None:
                raise self._lost
        if not was_behind:
            self._runner.wake()

    def end(self) -> None:
        """Store the last head, then stop; does not wait."""
        self._runner.stop()

    def close(self, within: float = _STOP_S) -> None:
        """Keep the last head, and end; wait so many seconds at most."""
        self._runner.stop()
        self._runner.join(within)

    def step(self) -> float | None:
        """Keep the last head, `seconds` after there was one to keep."""
        now = self._steady()
        if not self._is_behind:
            return self._rest(now)
        if self._due is None:
            self._due = now + self._seconds
        if now < self._due:
            return self._due - now
        # Before the head is read: a commit meanwhile is behind again.
        self._due, self._is_behind = None, False
        self.finish()
        return 0

    def _rest(self, now: float) -> float | None:
        """Compare the log while it does not grow; return the seconds until the next time."""
        head = self._head
        if head is None or not self._compared or self._lost is not None:
            return None
        if now >= self._rest_until:
            with self._signing:
                try:
                    self._compare(head)
                except (Unavailable, Refused) as error:
                    self._end_if_lost(head)
                    self._report(str(error))
                else:
                    self._report(None)
        return None if self.refused else max(0.0, self._rest_until - now)

    def finish(self) -> None:
        """Keep the last head, unless that was done."""
        with self._signing:
            self._finish()

    def _finish(self) -> None:
        started, head = self._steady(), self._head
        if head is None or self._lost is not None:
            return
        if head == self._done:
            self._behind_since = None
            return
        try:
            store = self._compare(head)
            if head.key not in {None, store.key.verifier.text}:
                raise Unavailable(
                    f"no checkpoint is signed: the log's key is {head.key}, not "
                    f"{store.key.verifier.text}; set ACCOUNTANT_CHECKPOINT_KEY"
                )
            self._sign(store, head)
            if head != self._begun:
                self._clock_note = None  # a decision was made since, and has a checkpoint
        except (Unavailable, Refused) as error:
            self._end_if_lost(head)
            self._report(str(error))
            if self._behind_since is None:
                self._behind_since = started
            self._is_behind = True  # retried until it is stored
        else:
            self._done = head
            # A commit meanwhile is later than the start, so this is never too short.
            self._behind_since = None if self._head == head else started
            self._report(None)

    def _sign(self, store: CheckpointStore, head: LogEnd) -> None:
        """Raises: Unavailable: the checkpoint cannot be stored."""
        done = store.put(head.sequence, head.head, head.branch, self._clock.now())
        self._own, self._had = self._own or (done[0],), True
        self._missing_note = None
        self.newest = done[1]
        if self._send is not None:
            self._send(*done)

    def _end_if_lost(self, head: LogEnd) -> None:
        """Remember that a step has found a loss; sign the head that proves a second log."""
        self._found_late = self._lost is not None
        store = self._store
        if self._lost is None or store is None or not self._must_sign:
            return
        if head.key in {None, store.key.verifier.text}:
            with suppress(Unavailable):  # this log halts all the same
                self._sign(store, head)

    def _report(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble:
            then = "nothing more is decided" if self.refused else "decisions go on"
            _log.warning("checkpoints_trouble", why=trouble, then=then)
        self._trouble = trouble
