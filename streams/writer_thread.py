"""The one thread that writes an embedded ledger: a processor in an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Final

import apsw
import structlog

from accountant.errors import LogDamaged
from accountant.partition import Partition
from streams.clock import CheckedClock, Clock
from streams.errors import ClockOutOfRange, Fenced, Refused, Unavailable
from streams.journal.handoff import Handoff
from streams.metrics.standing import Standing
from streams.processor import AlwaysEntitled, Committed, Observer, Processor

_log = structlog.get_logger(__name__)
_STOP_S: Final = 10.0

MakeProcessor = Callable[[Observer, AlwaysEntitled], Processor]


class _UntilDiskFails(AlwaysEntitled):
    """After an I/O error nobody knows what the disk holds until the file is opened anew."""

    async def may_own(self, fault: BaseException | None) -> bool:
        return await super().may_own(fault) and not is_io_error(fault)


def is_io_error(fault: BaseException | None) -> bool:
    """Tell whether the disk itself failed, rather than being full or busy."""
    return fault is not None and isinstance(fault.__cause__, apsw.IOError)


class WriterThread:
    """Runs one processor, answers its callers, and knows why it does not decide.

    Args:
        make: makes the processor, given its observer and entitlement.
        inbox: where the callers' bodies wait.
        standing: what readers see; told before the callers are answered.
        publish: given the decisions of each commit.
    """

    def __init__(
        self,
        make: MakeProcessor,
        inbox: Handoff,
        standing: Standing,
        clock: Clock,
        *,
        publish: Callable[[Committed], None],
    ) -> None:
        self._make = make
        self._inbox = inbox
        self._standing = standing
        self._clock = CheckedClock(clock)
        self._publish = publish
        self._began = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._ended: list[Callable[[BaseException], None]] = []
        self.partition: Partition | None = None
        self.trouble: BaseException | None = None
        self.fatal: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)

    def start(self) -> None:
        """Start, and return once requests can be decided.

        Raises: Refused, LogDamaged: they never can be; the thread has ended.
        """
        self._thread.start()
        self._began.wait()
        if self.fatal is not None:
            self._thread.join()
            raise self.fatal

    def on_end(self, callback: Callable[[BaseException], None]) -> None:
        """Have `callback` called, in the writer's thread, if this ends without `stop`."""
        self._ended.append(callback)
        if self.fatal is not None:
            callback(self.fatal)

    def stop(self) -> None:
        """End the thread; what was not decided stays undecided."""
        self._stopping = True
        self._inbox.stop()
        loop, task = self._loop, self._task
        if loop is not None and task is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)
        self._fail(Unavailable("the ledger is closed"), waiting=True)

    @property
    def reasons(self) -> Sequence[str]:
        """Why nothing is decided now; empty while all is well."""
        error = self.fatal or self.trouble
        if error is not None:
            return [_explained(error)]
        if self.partition is None:
            return ["refolding: the ledger is being read back"]
        return []

    def check(self) -> None:
        """Raise Unavailable if a body handed over now could only wait in vain."""
        if self.fatal is not None or self._stopping:
            raise Unavailable(_explained(self.fatal) if self.fatal else "the ledger is closed")
        if isinstance(self.trouble, ClockOutOfRange):
            raise Unavailable(_explained(self.trouble))

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # the callers must hear of it, whatever it is
            self.fatal = self.fatal or error
        finally:
            self.partition = None
            if not self._stopping:
                self.fatal = self.fatal or self.trouble or Unavailable("the writer ended")
            self._began.set()
            why = self.fatal or "the ledger is closed"
            text = _explained(why) if isinstance(why, BaseException) else why
            self._fail(Unavailable(text), waiting=True)
        if self.fatal is not None:
            _log.error("ledger_ended", why=_explained(self.fatal))
            for callback in self._ended:
                callback(self.fatal)

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        await self._make(self, _UntilDiskFails()).run()

    def _fail(self, error: Exception, *, waiting: bool) -> None:
        self._inbox.fail(error, waiting=waiting)

    def refolded(self, partition: Partition, seconds: float) -> None:
        self._standing.refolded(partition, seconds)
        self.partition = partition
        try:
            self._clock.now(partition.decided_at)
            self.trouble = None
        except ClockOutOfRange as error:
            self.trouble = error
        self._began.set()

    def committed(self, committed: Committed) -> None:
        self._standing.committed(committed)
        self._publish(committed)
        self._inbox.answer([encoded.value for _, encoded in committed.records])

    def dropped(self, partition: int, error: BaseException | None) -> None:
        self.partition = None
        self._standing.dropped(partition, error)
        if error is None:
            return
        self.trouble = error
        # What was being committed may be decided or not: only the same bytes again can tell.
        why = f"{_explained(error)}; send the same bytes again"
        self._fail(Unavailable(why), waiting=isinstance(error, ClockOutOfRange))

    def halted(self, partition: int, error: BaseException) -> None:
        self.partition = None
        self.fatal = error
        self._standing.halted(partition, error)


def _explained(error: BaseException) -> str:
    """Return what is wrong in words, led by a code where scripts look for one."""
    if isinstance(error, ClockOutOfRange):
        return f"clock_out_of_range: {error}"
    if isinstance(error, Refused | LogDamaged):
        return f"halted: {error}"
    if isinstance(error, Fenced):
        return f"fenced: {error}"
    if is_io_error(error):
        return f"io_error: {error}: check the disk, then start again"
    return str(error) or type(error).__name__
