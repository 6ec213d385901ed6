"""Signals that end a command as an error, so that it says first what it leaves behind."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

_ENDING: Final = tuple(
    getattr(signal, name)
    for name in (
        *("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGXCPU"),
        *("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGSTKFLT"),
    )
    if hasattr(signal, name)
)
"""The signals that end a process and can be handled: a timer outlives the program that set it.

A closed pipe is an error of the stream. Signals of a fault, such as SIGSEGV, say that the process
cannot go on.
"""
_DEFAULT: Final = (signal.SIG_DFL, signal.default_int_handler)


class Interrupted(KeyboardInterrupt):
    """A signal asks the command to end.

    An event loop passes a KeyboardInterrupt on, and no other error of this kind.

    Attributes:
        signal: which one.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(f"interrupted by {self.signal.name}")


def signal_of(error: KeyboardInterrupt) -> signal.Signals:
    """Return the signal that an interrupt is for: Python's own is for SIGINT."""
    return error.signal if isinstance(error, Interrupted) else signal.SIGINT


class SignalsRaise:
    """A context in which each signal that would end the process raises `Interrupted`.

    A signal that the caller has turned off, as `nohup` does, stays off, and one that this process
    handles already keeps its handler. Outside of the main thread nothing changes: signals arrive in
    the main thread alone.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._is_over = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) in _DEFAULT:
                    self._before[number] = signal.signal(number, self._raise)
        return self

    def __exit__(self, _: object, _error: BaseException | None, _at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """Raise no more: what the command says of its end is not interrupted."""
        self._is_over = True

    def _raise(self, number: int, _: FrameType | None) -> None:
        if not self._is_over:
            raise Interrupted(number)
