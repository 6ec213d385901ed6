"""Signs checkpoints of a ledger asynchronously, and compares the log with them at start.

    deciding thread                 the task's thread
    ---------------                 -----------------
    commit, then wake() --------->  step: `seconds` after the first commit without a checkpoint,
                                    sign the last committed head, and store it

A head is signed only after its commit has returned. A crash in between leaves an older checkpoint,
never one of a decision that was not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from accountant.partition import Partition
from accountant.times import iso
from streams.background import THREADS, Background
from streams.clock import DAY_MS, WARN_AHEAD_MS, Clock
from streams.errors import Refused, Unavailable
from streams.evidence.rollbacks import LostDecisions, find_fork, find_lost
from streams.evidence.signed_checkpoint import Checkpoint
from streams.evidence.store import CheckpointStore, StoredCheckpoints
from streams.logs import get_logger

_log = get_logger(__name__)
_STOP_S: Final = 5.0


class LogEnd(NamedTuple):
    """The end of a log.

    Attributes:
        key: the key that the log names, None while it names none.
    """

    sequence: int
    head: str
    branch: int
    key: str | None

    @classmethod
    def of(cls, partition: Partition) -> LogEnd:
        """Return the end of a partition's log."""
        return cls(partition.sequence, partition.head, partition.branch, partition.key)


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
        self._clock_note: str | None = None
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
        self._lost: Refused | None = None
        self._found_late = False  # by a step after the start
        self._trouble: str | None = None
        self._other_troubles: list[str] = []

    @property
    def notes(self) -> list[str]:
        first = [note for note in (self._trouble, self._clock_note) if note is not None]
        return first + self._other_troubles

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
        if self._store is not None and self._compared:
            news = self._store.newer(head.key, head.sequence, head.branch)
            self._check(find_fork(news, self._digest), head)
            return self._store
        store = self._look(head, self._digest)
        self._compared = True
        return store

    def _look(self, head: LogEnd, digest: Callable[[int], str | None]) -> CheckpointStore:
        """Compare the log with its newest checkpoint, as far as `digest` knows its decisions.

        Raises: as `_compare`.
        """
        try:
            store = self._store or self._open_store()
        except Refused as error:  # such as a key that other users may read
            raise Unavailable(str(error)) from error
        stored = store.load(head.key)
        self._report_stored(stored, store)
        if self._compares_clock:
            self._compare_clock(stored)
        try:
            lost = find_lost(head.sequence, head.branch, stored.checkpoints, digest)
        except Unavailable:
            # Even if its decisions cannot be read now, a log that is too short must not decide.
            self._check(
                find_lost(head.sequence, head.branch, stored.checkpoints, lambda _: None), head
            )
            raise
        self._check(lost, head)
        self._store = store
        return store

    def _compare_clock(self, stored: StoredCheckpoints) -> None:
        """Warn if the clock is far ahead of the newest checkpoint; only a person knows which is so.

        After a long pause that is right, so nothing is refused; the next checkpoint ends it.
        """
        self._clock_note = None
        now = self._clock.now()
        if not stored.checkpoints or now - stored.checkpoints[-1].at <= WARN_AHEAD_MS:
            return
        at = stored.checkpoints[-1].at
        self._clock_note = (
            f"this machine's clock is {(now - at) / DAY_MS:.1f} days ahead of the newest "
            f"checkpoint: {iso(now)} now, {iso(at)} then. If nothing was decided in between, this "
            "is right; otherwise set the clock"
        )
        _log.warning("clock_ahead_of_checkpoint", why=self._clock_note, then="decides")

    def _report_stored(self, stored: StoredCheckpoints, store: CheckpointStore) -> None:
        """Report troubles of the store; log an error for a possible attack."""
        self.key_differs, self.others = stored.log_key is not None, len(stored.others)
        alarms = [*_other_key(stored, store), *_other_ledgers(stored, store)]
        for event, why in alarms:
            if why not in self._other_troubles:
                _log.error(event, ledger=store.ledger, why=why, then="decisions go on")
        self._other_troubles = [*_other_troubles(stored, store), *(why for _, why in alarms)]

    def _check(self, lost: LostDecisions | None, head: LogEnd) -> None:
        """Raises: Refused: the log has lost decisions, or another one is signed, too."""
        if lost is not None:
            self._lost = Refused(describe_lost(lost, head))
            raise self._lost

    def wake(self, partition: Partition) -> None:
        """Report that the log has grown. One thread at a time may call it.

        Raises: Refused: the checkpoints were out of reach at the start, and show a loss now.
        """
        if self._lost is not None:
            raise self._lost
        self._head = LogEnd.of(partition)
        if not self._is_behind:
            self._is_behind = True
            if self._behind_since is None:
                self._behind_since = self._steady()
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
        if not self._is_behind:
            return None
        now = self._steady()
        if self._due is None:
            self._due = now + self._seconds
        if now < self._due:
            return self._due - now
        # Before the head is read: a commit meanwhile is behind again.
        self._due, self._is_behind = None, False
        self.finish()
        return 0

    def finish(self) -> None:
        """Keep the last head, unless that was done."""
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
            done = store.put(head.sequence, head.head, head.branch, self._clock.now())
            self.newest = done[1]
            if head != self._begun:
                self._clock_note = None  # a decision was made since, and has a checkpoint
            if self._send is not None:
                self._send(*done)
        except (Unavailable, Refused) as error:
            self._found_late = self._lost is not None
            self._report(str(error))
            if self._behind_since is None:
                self._behind_since = started
            self._is_behind = True  # retried until it is stored
        else:
            self._done = head
            # A commit meanwhile is later than the start, so this is never too short.
            self._behind_since = None if self._head == head else started
            self._report(None)

    def _report(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble:
            _log.warning("checkpoints_trouble", why=trouble, then="decisions go on")
        self._trouble = trouble


def _other_troubles(stored: StoredCheckpoints, store: CheckpointStore) -> list[str]:
    if stored.copy_of is not None:
        why = "each decides without knowing of the other: stop one of them"
        return [f"this file is a copy of {stored.copy_of}, and {why}"]
    if store.unread:
        unread = (
            f"{store.unread} checkpoints of this ledger cannot be read, or are signed by another "
        )
        return [f"{unread}key than {store.key.verifier.text}: the log was not compared with them"]
    return []


def _other_key(stored: StoredCheckpoints, store: CheckpointStore) -> Iterator[tuple[str, str]]:
    if stored.log_key is not None:
        why = (
            f"the log's key is {stored.log_key}, the key file has {store.key.verifier.text}: "
            "auditors trust no checkpoint that this key signs. Set ACCOUNTANT_CHECKPOINT_KEY to "
            "the file of the log's key, or change the key: `accountant key rotate`"
        )
        yield "checkpoint_key_differs", why


def _other_ledgers(stored: StoredCheckpoints, store: CheckpointStore) -> Iterator[tuple[str, str]]:
    for newest, folder in stored.others:
        why = (
            f"this is ledger {store.ledger}, but checkpoints of ledger {newest.ledger}, up to its "
            f"decision {newest.sequence} at {iso(newest.at)}, are in {folder}: a new ledger has "
            "replaced the old one, with fresh budgets. Restore the old ledger; or, to give it up "
            "for ever, remove that folder"
        )
        yield "ledger_replaced", why


def describe_lost(lost: LostDecisions, head: LogEnd) -> str:
    """Return what a log has lost, and what to do next.

    Args:
        head: the log's end.
    """
    newest = lost.newest
    command = f"accountant accept-rollback --lost {lost.first}-{newest.sequence} --reason TEXT"
    if lost.fork is not None:
        return (
            f"fork: two logs of this ledger were signed. Decision {newest.sequence} was "
            f"{newest.head} at {iso(newest.at)}, and is another one in this log, of which decision "
            f"{lost.fork.sequence} was signed at {iso(lost.fork.at)}: two processes decide on "
            "copies of one ledger, or somebody else has its key. Stop the other process. On the "
            f"log that should continue, with head {head.head}, accept for ever that the other's "
            f"decisions are not charged: `{command}`"
        )
    if newest.branch > head.branch:
        return (
            f"the log is of branch {head.branch} and ends at decision {head.sequence}, but "
            f"decision {newest.sequence} of branch {newest.branch} was there at "
            f"{iso(newest.at)}: this copy lacks the rollback that began branch {newest.branch}. "
            f"What was granted there from decision {lost.first} on, or from an earlier one, is not "
            f"charged in it. Only if no newer file exists, accept the loss for ever: `{command}`, "
            "or name an earlier first decision if you know of one. First look for the newest "
            "file, and restore it"
        )
    if lost.is_shorter:
        since = "" if lost.latest > head.sequence else " and continued differently"
        return (
            f"the log ends at decision {head.sequence}, but decision {newest.sequence} was there "
            f"at {iso(newest.at)}: an older copy was restored{since}, or the end was lost. What "
            "was granted since is not charged in it. Only if no newer file exists, accept the loss "
            f"for ever: `{command}`. First look for the newest file, and restore it"
        )
    return (
        f"decision {newest.sequence} of the log is another one than at {iso(newest.at)}: the log "
        "was changed, or an older copy was restored and continued. Restore the right file; or "
        f"accept for ever that the decisions from {lost.first} on may be others: `{command}`"
    )
