"""A task that keeps signed checkpoints of a ledger behind its commits, and a look at its start.

    deciding thread                 the task's thread
    ---------------                 -----------------
    commit, then wake() --------->  step: `seconds` after the first commit that has none,
                                    sign the last committed head, keep it

A head is signed only after its commit has returned, and outside of it: a crash in between leaves
an older checkpoint, never one of a decision that was not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from accountant.partition import Partition
from accountant.times import iso
from streams.background import THREADS, Background
from streams.clock import Clock
from streams.errors import Refused, Unavailable
from streams.evidence.note import Checkpoint
from streams.evidence.rollbacks import Lost, forked, lost_of
from streams.evidence.store import Kept, Seen
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


class Heads:
    """Keeps the checkpoints of one ledger's file.

    Args:
        open_kept: opens the place; called again until that succeeds.
        digest: as of `rollbacks.lost_of`; may wait.
        at_once: `begin` may wait for it; else it looks at the last decision alone, and the first
            step compares the rest.
        seconds: at least so long between two checkpoints.
        required: refuse to decide while the checkpoints cannot be read.
        send: is given each checkpoint that was kept, with its note; must not wait.
        background: calls the steps.

    Attributes:
        notes: what a person should know, for `/readyz`.
        newest: the note that was kept last by this object, None before the first.
        key_differs: the key that signs is not the log's.
        others: how many ledgers of which checkpoints are there this one has replaced.
    """

    def __init__(
        self,
        open_kept: Callable[[], Kept],
        digest: Callable[[int], str | None],
        clock: Clock,
        *,
        seconds: float,
        required: bool,
        at_once: bool = True,
        send: Callable[[Checkpoint, bytes], None] | None = None,
        background: Background = THREADS,
    ) -> None:
        self._open_kept = open_kept
        self._digest = digest
        self._at_once = at_once
        self._clock = clock
        self._seconds = seconds
        self._required = required
        self._send = send
        self.newest: bytes | None = None
        self.key_differs = False
        self.others = 0
        self._kept: Kept | None = None
        self._compared = False
        self._head: LogEnd | None = None
        self._done: LogEnd | None = None
        self._is_behind = False  # a head waits to be signed
        self._due: float | None = None
        self._steady = background.steady
        self._runner = background.runner(self, "ledger-checkpoints")
        self._lost: Refused | None = None
        self._found_late = False  # by a step, behind the start
        self._trouble: str | None = None
        self._told: list[str] = []

    @property
    def notes(self) -> list[str]:
        return ([] if self._trouble is None else [self._trouble]) + self._told

    @property
    def refused(self) -> str | None:
        """Why nothing can be decided any more: the log has lost decisions."""
        return None if self._lost is None else str(self._lost)

    @property
    def is_running(self) -> bool:
        """Whether something may still be kept."""
        return self._runner.is_running

    def begin(self, partition: Partition) -> None:
        """Compare the log with its newest checkpoint; from now on keep its heads.

        Raises: Refused: the log has lost decisions, or cannot be compared and must be.
        """
        if self._found_late and self._lost is not None:
            raise self._lost  # what is looked at here does not show it
        self._head = LogEnd.of(partition)
        self._lost, self._compared = None, False
        try:
            if self._at_once:
                self._compare(self._head)
            else:
                self._look(self._head, {self._head.sequence: self._head.head}.get)
        except Unavailable as error:
            self._tell(str(error))
            if self._required:
                raise Refused(
                    f"{error}; ACCOUNTANT_CHECKPOINTS_REQUIRED is set: nothing is decided before "
                    "the log was compared with its checkpoints"
                ) from error
        self.wake(partition)

    def _compare(self, head: LogEnd) -> Kept:
        """Compare the log with its newest checkpoint, unless that was done.

        Raises: Unavailable: it cannot be compared now. Refused: the log has lost decisions.
        """
        if self._kept is not None and self._compared:
            news = self._kept.news(head.key, head.sequence, head.branch)
            self._check(forked(news, self._digest), head)
            return self._kept
        kept = self._look(head, self._digest)
        self._compared = True
        return kept

    def _look(self, head: LogEnd, digest: Callable[[int], str | None]) -> Kept:
        """Compare the log with its newest checkpoint, as far as its decisions are known.

        Raises: as `_compare`.
        """
        try:
            kept = self._kept or self._open_kept()
        except Refused as error:  # such as a key that others may read
            raise Unavailable(str(error)) from error
        seen = kept.seen(head.key)
        self._tell_seen(seen, kept)
        try:
            lost = lost_of(head.sequence, head.branch, seen.kept, digest)
        except Unavailable:
            # A log that ends too early decides nothing, though its decisions cannot be read now.
            self._check(lost_of(head.sequence, head.branch, seen.kept, lambda _: None), head)
            raise
        self._check(lost, head)
        self._kept = kept
        return kept

    def _tell_seen(self, seen: Seen, kept: Kept) -> None:
        """Say what a person should know of the place, loudly what may be an attack."""
        self.key_differs, self.others = seen.key_before is not None, len(seen.others)
        told = [*_other_key(seen, kept), *_other_ledgers(seen, kept)]
        for event, note in told:
            if note not in self._told:
                _log.error(event, ledger=kept.ledger, why=note, then="decisions go on")
        self._told = [*_told(seen, kept), *(note for _, note in told)]

    def _check(self, lost: Lost | None, head: LogEnd) -> None:
        """Raises: Refused: the log has lost decisions, or another one is signed, too."""
        if lost is not None:
            self._lost = Refused(explained(lost, head))
            raise self._lost

    def wake(self, partition: Partition) -> None:
        """Say that the log has grown; to be called by one thread at a time.

        Raises: Refused: the checkpoints were out of reach at the start, and show a loss now.
        """
        if self._lost is not None:
            raise self._lost
        self._head = LogEnd.of(partition)
        if not self._is_behind:
            self._is_behind = True
            self._runner.wake()

    def end(self) -> None:
        """Have the last head kept, and end; wait for nothing."""
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
        head = self._head
        if head is None or head == self._done or self._lost is not None:
            return
        try:
            kept = self._compare(head)
            if head.key not in {None, kept.key.verifier.text}:
                raise Unavailable(
                    f"no checkpoint is kept: the log's key is {head.key}, not "
                    f"{kept.key.verifier.text}; set ACCOUNTANT_CHECKPOINT_KEY"
                )
            done = kept.put(head.sequence, head.head, head.branch, self._clock.now())
            self.newest = done[1]
            if self._send is not None:
                self._send(*done)
        except (Unavailable, Refused) as error:
            self._found_late = self._lost is not None
            self._tell(str(error))
            self._is_behind = True  # tried again, until it can be kept
        else:
            self._done = head
            self._tell(None)

    def _tell(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble:
            _log.warning("checkpoints_trouble", why=trouble, then="decisions go on")
        self._trouble = trouble


def _told(seen: Seen, kept: Kept) -> list[str]:
    if seen.copy_of is not None:
        return [f"this file is a copy of {seen.copy_of}: neither knows what the other decides"]
    if kept.unread:
        unread = (
            f"{kept.unread} checkpoints of this ledger cannot be read, or are signed by another "
        )
        return [f"{unread}key than {kept.key.verifier.text}: the log was not compared with them"]
    return []


def _other_key(seen: Seen, kept: Kept) -> Iterator[tuple[str, str]]:
    if seen.key_before is not None:
        why = (
            f"the log's key is {seen.key_before}, the key file holds {kept.key.verifier.text}: "
            "auditors believe no checkpoint that this one signs. Set ACCOUNTANT_CHECKPOINT_KEY to "
            "the file of the log's key, or change the key: `accountant key rotate`"
        )
        yield "checkpoint_key_differs", why


def _other_ledgers(seen: Seen, kept: Kept) -> Iterator[tuple[str, str]]:
    for newest, folder in seen.others:
        why = (
            f"this is ledger {kept.ledger}, but checkpoints of ledger {newest.ledger}, up to its "
            f"decision {newest.sequence} at {iso(newest.at)}, lie in {folder}: the ledger was "
            "replaced by a new one, with all budgets new. Put the old one back; or, if it is given "
            "up for ever, remove that folder"
        )
        yield "ledger_replaced", why


def explained(lost: Lost, head: LogEnd) -> str:
    """Say what a log has lost, and what to do about it.

    Args:
        head: the log's end.
    """
    newest = lost.newest
    how = f"accountant accept-rollback --lost {lost.first}-{newest.sequence} --reason TEXT"
    if lost.fork is not None:
        return (
            f"fork: two logs of this ledger were signed. Decision {newest.sequence} was "
            f"{newest.head} at {iso(newest.at)}, and is another one in this log, of which decision "
            f"{lost.fork.sequence} was signed at {iso(lost.fork.at)}: two processes decide on "
            "copies of one ledger, or somebody else has its key. Stop the other one. On the log "
            f"that is to go on, here from {head.head}, accept for ever that the other's decisions "
            f"are not charged: `{how}`"
        )
    if newest.branch > head.branch:
        return (
            f"the log is of branch {head.branch} and ends at decision {head.sequence}, but "
            f"decision {newest.sequence} of branch {newest.branch} was there at "
            f"{iso(newest.at)}: this copy lacks the rollback that began branch {newest.branch}. "
            f"What was granted there from decision {lost.first} on, or from an earlier one, is not "
            f"charged in it. Only where no newer file is left, accept the loss for ever: `{how}`, "
            "or name an earlier first decision if you know of one. First find the newest file, "
            "and put it back"
        )
    if lost.is_shorter:
        since = "" if lost.latest > head.sequence else " and went on another way"
        return (
            f"the log ends at decision {head.sequence}, but decision {newest.sequence} was there "
            f"at {iso(newest.at)}: an older copy was put back{since}, or the end is lost. What was "
            "granted since is not charged in it. Only where no newer file is left, accept the loss "
            f"for ever: `{how}`. First find the newest file, and put it back"
        )
    return (
        f"decision {newest.sequence} of the log is another one than at {iso(newest.at)}: the log "
        "was changed, or an older copy was put back and went on. Put the right file back; or "
        f"accept for ever that the decisions from {lost.first} on may be others: `{how}`"
    )
