"""`accountant` in a process of its own: a fork of the fork server's, by night a new interpreter."""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.durations.other_processes import count
from tests.nightly import NIGHTLY
from tests.patience import PATIENCE_S

STARTS = ("tests.forks.server", "tests.forks.stub")

_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = Path(__file__).with_name("server.py")
_STUB: Final = Path(__file__).with_name("stub.py")
_COMMAND: Final = "streams.cli.root"
FORKS: Final = sys.platform == "linux" and not NIGHTLY
"""Whether commands are forks: by night, and where sockets pass no messages, none is."""


class _Server:
    """The process of `tests/forks/server.py`, until this process ends."""

    def __init__(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="forks-", ignore_cleanup_errors=True)
        self.programs = Path(directory.name)
        program = self.programs / "accountant"
        program.write_text(f"#!{sys.executable} -IS\n{_STUB.read_text()}")
        self.path = f"{program}.orders"
        program.chmod(0o700)
        mine = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), self.path],
            # Threads of numpy's would be missing in the forks.
            env={**mine, "PYTHONPATH": str(_ROOT), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"
        self._spent = os.open(f"{self.path}.spent", os.O_RDONLY)
        self._total = 0.0
        count(self._seconds)
        atexit.register(self._close, directory)

    def _seconds(self) -> float:
        """Return the processor seconds of all commands that have ended."""
        self._total += sum(map(float, os.read(self._spent, 1 << 20).splitlines()))
        return self._total

    def _close(self, directory: tempfile.TemporaryDirectory[str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)
        directory.cleanup()


@cache
def _server() -> _Server:
    return _Server()


class _Fork(subprocess.Popen[Any]):
    """A command that the server forks, in the place of a child of this process."""

    def _execute_child(self, arguments: Any, *more: Any) -> None:
        """Order the fork. The parameters are those of `Popen`, whose pipes exist by now.

        Args:
            arguments: the module whose `main` runs, and its arguments.
        """
        (executable, preexec, _, pass_fds, cwd, env, _, _, shell), pipes = more[:9], more[9:15]
        (*_, umask, session, group) = more
        assert not any((executable, preexec, pass_fds, shell))
        assert umask == group == -1
        own = (pipes[0], pipes[3], pipes[5])
        module, *words = map(os.fspath, arguments)
        fields = {
            "module": module,
            "arguments": words,
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": session,
            "umask": _umask(),
        }
        order = marshal.dumps(fields)  # before the server waits for it
        streams = [number if each == -1 else each for number, each in enumerate(own)]
        self._answers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._answers.connect(_server().path)
        socket.send_fds(self._answers, [order], streams)
        self.pid = int(self._answers.recv(64))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _has_answered(self) -> bool:
        ready = select.poll()  # `select.select` takes no file above 1,023, and a test may have more
        ready.register(self._answers, select.POLLIN)
        return bool(ready.poll(0))

    def _try_wait(self, options: int) -> tuple[int, int]:
        """Return the process id and the status, or 0 while it runs."""
        if options & os.WNOHANG and not self._has_answered():
            return 0, 0
        status = int(self._answers.recv(64) or signal.SIGKILL)
        self._answers.close()
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self.returncode = os.waitstatus_to_exitcode(status)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def _umask() -> int:
    """Return the mask of this process's new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def start(*arguments: str, **options: Any) -> subprocess.Popen[Any]:
    """Start `accountant` with the options of `Popen`."""
    if not FORKS:
        return subprocess.Popen([sys.executable, "-m", "streams.cli", *arguments], **options)
    return _Fork([_COMMAND, *arguments], **options)


def run(
    *arguments: str, timeout: float = PATIENCE_S, stdin: Any = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run `accountant` and capture its outputs.

    Args:
        stdin: text or bytes for its standard input.
        options: of `Popen`.
    """
    process = start(*arguments, **{**_streams(stdin), **options})
    return _ended(process, arguments, stdin, timeout)


def run_program(
    module: str, *arguments: str, timeout: float = PATIENCE_S, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run the function `main` of a module of tests, and capture its outputs."""
    options = {**_streams(None), **options}
    if FORKS:
        process: subprocess.Popen[Any] = _Fork([module, *arguments], **options)
    else:
        process = subprocess.Popen([sys.executable, "-m", module, *arguments], **options)
    return _ended(process, (module, *arguments), None, timeout)


def _streams(stdin: Any) -> dict[str, int]:
    given = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    return {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def _ended(
    process: subprocess.Popen[Any], arguments: tuple[str, ...], stdin: Any, timeout: float
) -> subprocess.CompletedProcess[Any]:
    with process:
        try:
            out, error = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, error)


def pause(process: subprocess.Popen[Any]) -> None:
    """Stop a process by SIGSTOP, and return once all its threads have stopped."""
    process.send_signal(signal.SIGSTOP)
    while any(_state(task) not in "TtZX" for task in Path(f"/proc/{process.pid}/task").iterdir()):
        time.sleep(0.01)


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(") ")[2][0]


def path_of_shell() -> str:
    """Return the PATH of a shell that is to find `accountant`."""
    forks = (str(_server().programs),) if FORKS else ()
    return os.pathsep.join([*forks, str(Path(sys.executable).parent), os.environ["PATH"]])
