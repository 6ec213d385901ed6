"""Test doubles for programs that run a ledger in their tests: clock, background, crashes, observer.

Their journal is `MemoryJournal` on a `MemoryLog`. It passes the same contract tests as the
journals on a disk and on a broker.
"""

from __future__ import annotations

import asyncio
import math
import os
import selectors
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from accountant.partition import Partition
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from streams.errors import CommitUnknown
from streams.processing.memory_journal import MemoryJournal, MemoryLog
from streams.processing.observers import Committed
from streams.tasks.background import BackgroundTask

__all__ = [
    "Crash",
    "CrashPoints",
    "ManualBackground",
    "ManualClock",
    "MemoryJournal",
    "MemoryLog",
    "RecordingObserver",
]


class ManualClock:
    """A clock that moves only by `pass_` and `jump`.

    Attributes:
        wall: milliseconds since 1970.
        steady: seconds on the clock that never jumps.
    """

    def __init__(self, wall: int) -> None:
        self.wall = wall
        self.steady = 0.0

    def now(self) -> int:
        """Return the wall clock, milliseconds since 1970."""
        return self.wall

    def monotonic(self) -> float:
        """Return the seconds of the clock that never jumps."""
        return self.steady

    def pass_(self, ms: int) -> None:
        """Move both clocks forward."""
        self.wall += ms
        self.steady += ms / 1000

    def jump(self, ms: int) -> None:
        """Set the wall clock forward or back, and leave the steady clock as it is."""
        self.wall += ms


class ManualRunner:
    """Calls the steps of one task when `ManualBackground` says so.

    Attributes:
        due: the time of the next step; infinite until the task is woken.
    """

    def __init__(self, task: BackgroundTask, name: str, clock: ManualClock) -> None:
        self.name = name
        self.due = math.inf
        self.is_running = False
        self.is_stopping = False
        self._task = task
        self._clock = clock

    def start(self) -> None:
        """Call the first step now."""
        if not self.is_running and not self.is_stopping:
            self.is_running = True
            self.step()

    def wake(self) -> None:
        if not self.is_stopping:
            self.is_running, self.due = True, self._clock.monotonic()

    def stop(self) -> None:
        self.is_stopping = True

    def join(self, within: float | None) -> None:
        """Finish the task now."""
        if self.is_running:
            self.is_running, self.due = False, math.inf
            self._task.finish()

    def step(self) -> None:
        """Call the step that is due."""
        self.due = math.inf
        pause = self._task.step()
        if pause is not None:  # the step itself may have woken its task
            self.due = min(self.due, self._clock.monotonic() + pause)


class ManualBackground:
    """Runs background tasks without threads, by a clock that moves only by `pass_`.

    Attributes:
        runners: of the tasks, in the order in which they were made.
    """

    may_wait = False

    def __init__(self, clock: ManualClock) -> None:
        self.runners: list[ManualRunner] = []
        self._clock = clock

    def steady(self) -> float:
        return self._clock.monotonic()

    def runner(self, task: BackgroundTask, name: str) -> ManualRunner:
        self.runners.append(ManualRunner(task, name, self._clock))
        return self.runners[-1]

    def pass_(self, ms: int) -> None:
        """Let time pass, and call each step at its time."""
        end = self._clock.wall + ms
        while True:
            first = min(self.runners, key=lambda each: each.due, default=None)
            left = math.inf if first is None else (first.due - self.steady()) * 1000
            if first is None or self._clock.wall + left > end:
                break
            self._clock.pass_(max(0, math.ceil(left)))
            first.step()
        self._clock.pass_(max(0, end - self._clock.wall))


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A scripted crash at the n-th time that a point is reached.

    Attributes:
        point: `owned`, `decided` or `committed` of a `Processor`; `commit_begun` or
            `commit_done` of a `MemoryJournal`.
        nth: 1 is the first time.
        action: `raise` an error; `cancel` the task; `kill` the process by SIGKILL; `pause`
            until `CrashPoints.resume`, as SIGSTOP does.
        error: makes the error that `raise` raises.
    """

    point: str
    nth: int = 1
    action: Literal["raise", "cancel", "kill", "pause"] = "raise"
    error: Callable[[], BaseException] = lambda: CommitUnknown("scripted crash")


class CrashPoints:
    """The `reach` of a `Processor` or `MemoryJournal`, or of both: runs scripted crashes.

    Attributes:
        reached: number of times that each point was reached.
        paused: the point at which a task is paused, None if no task is.
    """

    def __init__(self, *crashes: Crash) -> None:
        self._crashes = {(crash.point, crash.nth): crash for crash in crashes}
        self._resumed = asyncio.Event()
        self.reached: Counter[str] = Counter()
        self.paused: str | None = None

    async def __call__(self, point: str) -> None:
        """Reach a point, and crash there if the script says so."""
        self.reached[point] += 1
        crash = self._crashes.get((point, self.reached[point]))
        if crash is None:
            return
        match crash.action:
            case "raise":
                raise crash.error()
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            case "pause":
                self.paused = point
                await self._resumed.wait()
                self.paused = None

    def resume(self) -> None:
        """Resume every paused task; later pauses have no effect."""
        self._resumed.set()


class RecordingObserver:
    """Records the calls of a processor to its observer.

    Attributes:
        partition: the state while it is valid, otherwise None.
        refolds: number of replays.
        commits: the inputs and decisions of each commit.
        drops: the reason of each drop of the state; None where the task was cancelled.
        halt: why the processor decides nothing more, None while it decides.
    """

    def __init__(self) -> None:
        self.partition: Partition | None = None
        self.refolds = 0
        self.commits: list[list[tuple[Input, EncodedDecision]]] = []
        self.drops: list[BaseException | None] = []
        self.halt: BaseException | None = None
        self._changed = asyncio.Event()

    @property
    def decisions(self) -> list[bytes]:
        """The bytes of each committed decision, in order."""
        return [encoded.value for commit in self.commits for _, encoded in commit]

    async def until(self, condition: Callable[[], bool], *, within: float = 60.0) -> None:
        """Return once a condition holds; each call of the processor checks it again.

        Raises: TimeoutError: the condition does not hold after `within` seconds.
        """
        async with asyncio.timeout(within):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def replayed(self, partition: Partition, seconds: float) -> None:
        """The processor has replayed the log."""
        self.partition = partition
        self.refolds += 1
        self._changed.set()

    def committed(self, committed: Committed) -> None:
        """The processor has committed decisions."""
        self.commits.append(list(committed.records))
        self._changed.set()

    def dropped(self, partition: int, error: BaseException | None) -> None:
        """The state is no longer valid."""
        self.partition = None
        self.drops.append(error)
        self._changed.set()

    def halted(self, partition: int, error: BaseException) -> None:
        """The processor decides nothing more."""
        self.partition = None
        self.halt = error
        self._changed.set()


class _SkippingSelector(selectors.SelectSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits for something that will never happen")
        self.skipped += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Run coroutines without waiting: a sleep of an hour takes no time, and runs repeat exactly.

    For coroutines that wait for timers and other tasks only, not for sockets or threads. Use it
    as `asyncio.Runner(loop_factory=VirtualTimeLoop)`.

    Raises: RuntimeError: every task waits, and no timer is set: a deadlock.
    """

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._skipping.skipped
