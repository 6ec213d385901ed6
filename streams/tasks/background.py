"""Background tasks: a task does one step at a time, and its runner decides when.

    caller's thread            the runner's thread
    ---------------            -------------------
    wake() ----------------->  step(): do what is due; return the seconds until the next
                               wait that long, or until `wake`
    stop() ----------------->  finish()

Each task has a thread of its own, so a step that blocks delays no other task. A simulation runs
the same steps without threads, by a clock of its own: `streams.testing.ManualBackground`.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from streams.clock import steady
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_PAUSE_S: Final = 1.0  # after a step that failed unexpectedly


class BackgroundTask(Protocol):
    """Work that runs concurrently with the decisions."""

    def step(self) -> float | None:
        """Do what is due; return the seconds until the next step, None to wait for `wake`.

        A step may come early: the caller of `wake` does not know what is due.
        """
        ...

    def finish(self) -> None:
        """Do what remains at the end. Called once, after the last step."""
        ...


class Runner(Protocol):
    """Calls the steps of one task."""

    @property
    def is_running(self) -> bool:
        """Whether steps may still be called."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        ...

    def start(self) -> None:
        """Start with the first step, unless it has started or `stop` was called."""
        ...

    def wake(self) -> None:
        """Call the next step now; start if needed. Returns at once."""
        ...

    def stop(self) -> None:
        """Call no more steps, then `finish`. Returns at once."""
        ...

    def join(self, within: float | None) -> None:
        """Wait for the end, at most `within` seconds; None waits without a limit."""
        ...


class Background(Protocol):
    """Where background tasks run, and the clock of their pauses.

    Attributes:
        may_wait: a step may wait for its input, because nothing else runs in its thread.
    """

    may_wait: bool

    def steady(self) -> float:
        """Return seconds of a clock that never jumps."""
        ...

    def runner(self, task: BackgroundTask, name: str) -> Runner:
        """Return a runner of a task, not yet started."""
        ...


class ThreadRunner:
    """Calls the steps of one task in a thread of its own, a daemon."""

    def __init__(self, task: BackgroundTask, name: str) -> None:
        self._task = task
        self._name = name
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def wake(self) -> None:
        self._woken.set()
        if self._thread is None:
            self.start()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()

    def join(self, within: float | None) -> None:
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(None if within is None else max(0.0, within))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            pause = self._step()
            if pause != 0 and not self._stopping.is_set():
                self._woken.wait(pause)
        self._task.finish()

    def _step(self) -> float | None:
        try:
            return self._task.step()
        except Exception:  # otherwise the thread would end unnoticed
            _log.exception("background_step_failed", task=self._name, then="tried again")
            return _PAUSE_S


class Threads:
    """Runs each task in a thread of its own, by the machine's clock."""

    may_wait = True

    def steady(self) -> float:
        return steady()

    def runner(self, task: BackgroundTask, name: str) -> Runner:
        return ThreadRunner(task, name)


THREADS: Final = Threads()
