"""The writer of an embedded ledger: its own thread, or the waiting thread of a caller.

    caller's thread                    queue                    ledger-writer thread
    ---------------                    -----                    --------------------
    submit(here=True) --+                                       gather: wait for bodies
      lock is free?     |                                         |
      queue is empty? --+--> lock --> _resume([body]) <-- lock <--+
                        |               |
                        |no             the processor's coroutine resumes from one NextBatch
                        v               and runs to the next one: it takes the bodies,
                    put(body) ------->  decides, commits, updates the readers, publishes,
                                        answers the callers

The processor is a coroutine that suspends in two places only: to wait for inputs (`NextBatch`),
or to pause after a fault (`Delay`). A thread that holds the lock resumes it from one such place
to the next, so there is one writer at a time. A waiting thread decides its own single request:
otherwise the two thread switches cost nearly half as much as the commit on an idle machine.
Why: docs/decisions/0022-one-baton-of-the-embedded-writer.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Final

import apsw

from accountant.errors import LogDamaged
from accountant.partition import Partition
from streams.clock import CLOCK_OUT_OF_RANGE, CheckedClock
from streams.embedded.queue import InputQueue, NextBatch, QueuedBody
from streams.error_words import meaning_of, words_of
from streams.errors import ClockOutOfRange, Fenced, Refused, Unavailable
from streams.metrics.live_ledgers import LiveLedgers
from streams.processing.observers import AlwaysEntitled, Committed, Entitlement, Observer
from streams.processing.processor import Processor
from streams.tasks.background import THREADS, Background
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_STOP_S: Final = 10.0
_POLL_S: Final = 0.5
_PATIENCE_S: Final = 10.0


class Delay:
    """The processor's request to wait before it owns the ledger again."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __await__(self) -> Generator[Delay, None, None]:
        yield self


async def pause(seconds: float) -> None:
    """Suspend the processor, as its `sleep`."""
    if seconds > 0:
        await Delay(seconds)


class UntilDiskError(AlwaysEntitled):
    """Ends ownership at an I/O error: the file's contents are unknown until it is opened again."""

    async def may_own(self, fault: BaseException | None) -> bool:
        return await super().may_own(fault) and not is_io_error(fault)


def is_io_error(fault: BaseException | None) -> bool:
    """Return whether the disk itself failed; a full or busy disk is no such error."""
    return fault is not None and isinstance(fault.__cause__, apsw.IOError)


class Writer:
    """Runs one processor, answers the callers, and reports why nothing is decided.

    Args:
        make: makes the processor from its observer and entitlement; its `sleep` must be `pause`
            and its journal must read from `inbox`.
        inbox: the queue of the callers' bodies.
        live_ledgers: the readers' view; updated before the callers are answered.
        on_begin: called with the state after each replay.
        publish: called with the decisions of each commit.
        background: runs the steps, except single requests in a caller's thread.

    Attributes:
        partition: the state, None while there is none; only the processor changes it.
        fatal: why nothing can ever be decided again.
    """

    def __init__(
        self,
        make: Callable[[Observer, Entitlement], Processor],
        inbox: InputQueue,
        live_ledgers: LiveLedgers,
        clock: CheckedClock,
        *,
        on_begin: Callable[[Partition], None],
        publish: Callable[[Committed], None],
        background: Background = THREADS,
    ) -> None:
        self._make = make
        self._inbox = inbox
        self._live_ledgers = live_ledgers
        self._clock = clock
        self._on_begin = on_begin
        self._publish = publish
        self._lock = threading.Lock()
        self._run = self._begin()
        self._at: NextBatch | Delay | None = Delay(0)
        self._began = threading.Event()
        self._on_end: list[Callable[[BaseException], None]] = []
        self._trouble: BaseException | None = None
        self.partition: Partition | None = None
        self.fatal: BaseException | None = None
        self._may_wait = background.may_wait
        self._runner = background.runner(self, "ledger-writer")

    def _begin(self) -> Coroutine[Any, Any, None]:
        return self._make(self, UntilDiskError()).run()

    def start(self) -> None:
        """Start, and return once requests can be decided.

        Raises: Refused, LogDamaged, Unavailable: requests cannot be decided; the thread has ended.
        """
        self._runner.start()
        # A replay may take any time. A fault may be temporary, so wait for a bounded time.
        waited = 0.0
        while not self._began.wait(_POLL_S):
            waited += _POLL_S
            if self._trouble is not None and waited >= _PATIENCE_S:
                self.stop()
                raise self._trouble
        if self.fatal is not None:
            self._runner.join(None)
            raise self.fatal
        trouble = self._trouble
        if self.partition is None and isinstance(trouble, Unavailable):
            self.stop()
            raise trouble

    def on_end(self, callback: Callable[[BaseException], None]) -> None:
        """Have `callback` called, in any thread, if the writer ends without `stop`."""
        self._on_end.append(callback)
        if self.fatal is not None:
            callback(self.fatal)

    def stop(self) -> None:
        """End the writer; undecided requests stay undecided."""
        self._runner.stop()
        self._inbox.wake()
        self._runner.join(_STOP_S)
        self._fail_all(Unavailable("the ledger is closed"))

    def submit(self, entry: QueuedBody, *, in_caller_thread: bool) -> None:
        """Have a body decided; its waiter is settled then.

        Args:
            in_caller_thread: decide the body before this returns, unless another thread decides.
        Raises: Unavailable: the writer has ended, the clock is wrong, or too many bodies wait.
        """
        self._check_decides()
        if in_caller_thread and not len(self._inbox) and self._lock.acquire(blocking=False):
            try:
                if isinstance(self._at, NextBatch) and not self._inbox.gathered:
                    self._resume([entry], in_caller_thread=True)
                    return
            finally:
                self._lock.release()
        self._inbox.put(entry)

    def submit_many(self, entries: Sequence[QueuedBody]) -> list[Unavailable]:
        """Have bodies decided in their order; their waiters are settled then.

        Returns: an error for each of the last bodies for which the queue has no room; their
            waiters are not settled.
        Raises: Unavailable: the writer has ended, or the clock is wrong; no waiter is settled.
        """
        self._check_decides()
        return self._inbox.put_many(entries)

    def _check_decides(self) -> None:
        """Check that bodies can be decided. Raises: Unavailable."""
        if self.fatal is not None or self._runner.is_stopping:
            raise Unavailable(error_text(self.fatal) if self.fatal else "the ledger is closed")
        trouble = self._trouble_now()
        if isinstance(trouble, ClockOutOfRange):
            raise Unavailable(error_text(trouble))

    @property
    def reasons(self) -> Sequence[str]:
        """Why nothing is decided now; empty if all is well."""
        error = self.fatal or self._trouble_now()
        if error is not None:
            return [error_text(error)]
        return (
            []
            if self.partition
            else ["the ledger is being replayed. Wait: requests are decided after that"]
        )

    def _trouble_now(self) -> BaseException | None:
        """Return why nothing is decided now, None if it was a wrong clock that is right again."""
        trouble, partition = self._trouble, self.partition
        if partition is None or not isinstance(trouble, ClockOutOfRange):
            return trouble
        # `replayed` has stored this trouble. If the clock is corrected before the processor reads
        # it, no drop and no later replay clears the trouble, so check the clock again.
        return _clock_trouble(self._clock, partition)

    def step(self) -> float | None:
        """Run the processor once for all but single requests in a caller's thread.

        That is a replay, a batch, or an idle check of the clock. The queue wakes this step, not
        its runner: that saves one switch of threads for each body.
        """
        if isinstance(at := self._at, NextBatch):
            self._inbox.gather(at.limit, at.wait if self._may_wait else 0)
        with self._lock:
            if isinstance(self._at, Delay):
                self._resume(None)
            elif self._at is not None:
                self._resume(self._inbox.next(self._at.limit))
            at = self._at
        if isinstance(at, Delay):
            return at.seconds
        return 0 if at is None or self._may_wait else at.wait

    def finish(self) -> None:
        """Cancel the processor; undecided requests stay undecided."""
        with self._lock:
            if self._at is not None:
                self._cancel()
        self._began.set()
        self._fail_all(
            Unavailable(error_text(self.fatal) if self.fatal else "the ledger is closed")
        )

    def _resume(
        self, value: Sequence[QueuedBody] | None, *, in_caller_thread: bool = False
    ) -> None:
        """Run the processor to its next suspension. The caller holds the lock.

        Args:
            in_caller_thread: this is a caller's thread.
        """
        try:
            self._at = self._run.send(value)
        except StopIteration:
            self._end(self.fatal or self._trouble or Unavailable("the processor ended"))
        except BaseException as error:
            # An error such as a keyboard interrupt in the caller's thread ends the coroutine and
            # its journal. A new coroutine replays the committed decisions.
            self.dropped(0, Unavailable(f"interrupted: {words_of(error)}"))
            self._run, self._at = self._begin(), Delay(0)
            if in_caller_thread:
                raise

    def _cancel(self) -> None:
        self._at = None
        try:
            self._run.throw(asyncio.CancelledError())
        except (asyncio.CancelledError, StopIteration):
            return
        self._run.close()

    def _end(self, why: BaseException) -> None:
        self._at, self.partition, self.fatal = None, None, why
        _log.error("ledger_ended", why=error_text(why))
        self._runner.stop()
        self._inbox.wake()
        self._began.set()
        for callback in self._on_end:
            callback(why)

    def _fail_all(self, error: Exception) -> None:
        self._inbox.fail_taken(error)
        self._inbox.fail_waiting(error, gathered=True)

    def replayed(self, partition: Partition, seconds: float) -> None:
        self._live_ledgers.replayed(partition, seconds)
        self._on_begin(partition)
        self.partition = partition
        self._trouble = _clock_trouble(self._clock, partition)
        self._began.set()

    def committed(self, committed: Committed) -> None:
        self._trouble = None
        self._live_ledgers.committed(committed)
        self._publish(committed)
        self._inbox.answer(committed.records)

    def dropped(self, partition: int, error: BaseException | None) -> None:
        self.partition = None
        self._live_ledgers.dropped(partition, error)
        if error is None:
            return
        self._trouble = error
        self._began.set()  # `start` reports a fault, such as a full disk, instead of waiting
        # The batch may be committed or not. A caller finds out by sending the same bytes again.
        unknown = Unavailable(f"{error_text(error)}; send the same bytes again")
        self._inbox.fail_taken(unknown)
        if isinstance(error, ClockOutOfRange):
            self._inbox.fail_waiting(unknown)

    def halted(self, partition: int, error: BaseException) -> None:
        self.partition = None
        self.fatal = error
        self._live_ledgers.halted(partition, error)


def error_text(error: BaseException) -> str:
    """Return the error as text; it begins with a code that scripts rely on, if there is one."""
    if isinstance(error, ClockOutOfRange):
        return f"{CLOCK_OUT_OF_RANGE}: {error}"
    if isinstance(error, Refused | LogDamaged):
        return f"halted: {error}"
    if isinstance(error, Fenced):
        return f"fenced: {error}"
    if is_io_error(error):
        return f"io_error: {error}: check the disk, then start the ledger again"
    return str(error) or meaning_of(error)


def _clock_trouble(clock: CheckedClock, partition: Partition) -> ClockOutOfRange | None:
    try:
        clock.now(partition.decided_at)
    except ClockOutOfRange as error:
        return error
    return None
