"""Kills a program that uses a session at chosen steps, and runs it again until it ends.

    python -m tests.streams.client.sessions.session_crashes URL KILL|INT STEP...

A step is a call or a return of a function of the session and its store, or of the program's own
mechanism, counted from the reservation on. For each STEP the program runs on a dataset of its own:
it is killed at that step, or interrupted, then at another one, then runs to its end. A line of
JSON says what the runs have shown. The programs are forks of this process, which opens no ledger.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from streams.client import Accountant, ResultMissing

STARTS = ()

CLAIM = "brownian:variance=400,sensitivity=1,first=10000"
LEVELS = ("10000", "2500", "1600")
POLICY = {"filter": "zcdp", "rho": "1"}
INTERRUPTED = 3
_FILES = ("session.py", "session_record.py", "session_rows.py", "session_crashes.py")


class Log:
    """Lines that outlive the process that writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *words: object) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, json.dumps([*words, os.getpid()]).encode() + b"\n")
        os.close(fd)

    def read(self) -> list[list[Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def program(url: str, dataset: str, log: Log, kill_at: int | None, sent: signal.Signals) -> int:
    """Use a session as a person would; return how many steps it took."""

    def mechanism() -> Any:
        log.write("ran")
        return lambda level: f"{level} by {os.getpid()}"

    with Accountant(url, analyst="ana") as ledger:
        ledger.as_owner("owner").open(dataset, POLICY, as_given=True)
        steps = kill_after(kill_at, sent)
        try:
            with ledger.reserve(dataset, CLAIM, until="PT30M", once="count", wait=20) as session:
                session.run(mechanism)
                for level in LEVELS:
                    log.write("shown", level, session.show(level))
                log.write("left")
        except ResultMissing as error:
            log.write("missing", str(error))
        sys.setprofile(None)
    return steps[0]


def kill_after(kill_at: int | None, sent: signal.Signals) -> list[int]:
    """Count the steps from now on, and kill this process at one of them."""
    counted = [0]

    def count(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.endswith(_FILES):
            return
        counted[0] += 1
        if counted[0] == kill_at:
            os.kill(os.getpid(), sent)

    sys.setprofile(count)
    return counted


def run(url: str, dataset: str, log: Log, kill_at: int | None, sent: signal.Signals) -> bool:
    """Run the program in a fork; return whether it has ended by itself."""
    child = os.fork()
    if not child:
        code = 1
        try:
            log.write("steps", program(url, dataset, log, kill_at, sent))
            code = 0
        except KeyboardInterrupt:
            code = INTERRUPTED
        finally:
            if code == 1:
                import traceback

                traceback.print_exc()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == INTERRUPTED:
        return False
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, dataset
        return True
    assert os.WTERMSIG(status) == signal.SIGKILL
    return False


def main(url: str, how: str, *steps: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp())
    for step in map(int, steps):
        dataset = f"census-{step}"
        log = Log(directory / dataset)
        for kill_at in (step, 1 + step * 7 % 100, None):
            if run(url, dataset, log, kill_at, signal.Signals[f"SIG{how}"]):
                break
        print(json.dumps({"dataset": dataset, "lines": log.read()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
