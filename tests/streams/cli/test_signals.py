"""Each signal that ends a process raises an error within a command."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

STARTS = ("streams.cli.printing.signals",)

_PROGRAM: Final = """
import os, signal
from streams.cli.printing.signals import Interrupted, SignalsRaise

faults = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"}
unlike = {"SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGRTMIN", "SIGRTMAX"}
for number in signal.Signals:
    if number.name in faults | unlike or signal.getsignal(number) is signal.SIG_IGN:
        continue
    child = os.fork()
    if not child:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        continue
    child = os.fork()
    if not child:
        try:
            with SignalsRaise():
                os.kill(os.getpid(), number)
        except Interrupted as error:
            os._exit(error.signal)
    print(number.name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == number)
"""


def test_each_signal_that_ends_a_process_is_an_error_first() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    found = dict(line.split() for line in done.stdout.splitlines())
    assert {"SIGALRM", "SIGTERM"} <= found.keys()
    assert {name for name, raised in found.items() if raised != "True"} == set()


def test_a_signal_that_the_process_handles_itself_keeps_its_handler() -> None:
    from streams.cli.printing.signals import SignalsRaise

    def own(_number: int, _frame: object) -> None:
        pass

    before = signal.signal(signal.SIGUSR1, own)
    try:
        with SignalsRaise():
            assert signal.getsignal(signal.SIGUSR1) is own
            assert signal.getsignal(signal.SIGUSR2) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGUSR1, before)
