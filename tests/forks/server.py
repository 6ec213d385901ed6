"""The fork server: runs `accountant` in forks of a process that has imported it.

Starting Python and importing takes most of a command's processor time. A fork has done both: it is
a process of its own in everything else.

Each order is one message on a socket, with the three standard streams. A keeper, which is a fork,
too, starts the command, and answers with its process id, later with its status. It appends the
processor seconds to a file. The server ends when its standard input does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import marshal
import os
import selectors
import signal
import socket
import sys
import threading
import time
from typing import Any, NoReturn

STARTS = ("streams.cli", "streams.serve", "streams.worker.app", "streams.curator.start")

LONGEST_ORDER = 1 << 20
# What commands import when they run.
_WARM = (
    "accountant.replay.audit",
    "accountant.views.population",
    "duckdb",
    "numpy",
    "streams.cli.demo.replay",
    "streams.cli.demo.screen",
    "streams.cli.demo.targets",
    "streams.cli.printing.explanations",
    "streams.cli.printing.output",
    "streams.cli.printing.tables",
    "streams.cli.reading.dataset_reader",
    "streams.cli.reading.log_at",
    "streams.cli.root",
    "streams.client",
    "streams.curator.start",
    "streams.evidence.checkpointer",
    "streams.evidence.comparison",
    "streams.evidence.key_changes",
    "streams.evidence.log_signatures",
    "streams.telemetry.logs",
    "streams.serve",
    "streams.worker.app",
    "structlog.dev",
)


def become(order: dict[str, Any]) -> NoReturn:
    """Become the command, or the program of tests that an order names."""
    main = importlib.import_module(order["module"]).main
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # the tests may run where these are ignored
    if order["session"]:
        os.setsid()
    os.umask(order["umask"])
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    sys.argv = ["accountant", *order["arguments"]]
    open_streams(order["env"].get("PYTHONIOENCODING", "utf-8"))
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        else:
            code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # As the interpreter's end does it, which would also collect the garbage of the server.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def open_streams(encoding: str) -> None:
    """Open the standard streams as the interpreter does: the server has other files there."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        stream = open(number, mode, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
        if name == "stderr" or stream.isatty():
            stream.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def watch_over(
    order: dict[str, Any], streams: list[int], answers: socket.socket, spent: int
) -> None:
    """Start the command of an order, wait for its end, and report both."""
    child = os.fork()
    if not child:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(*streams, answers.fileno(), spent) + 1)
        become(order)
    for number in (0, 1, 2, *streams):
        os.close(number)
    answers.send(str(child).encode())
    _, status, used = os.wait4(child, 0)
    os.write(spent, b"%f\n" % (used.ru_utime + used.ru_stime))
    answers.send(str(status).encode())


def serve(path: str) -> None:
    """Fork for each order that comes to a socket at `path`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _WARM:
        importlib.import_module(name)
    from streams.cli.root import command
    from streams.settings import Settings

    dict(command().commands)  # imports each, and makes its options
    Settings.model_rebuild()
    gc.collect()
    gc.freeze()
    spent = os.open(f"{path}.spent", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        print("listening", flush=True)
        ready = selectors.DefaultSelector()
        ready.register(listener, selectors.EVENT_READ)
        ready.register(0, selectors.EVENT_READ)
        while all(key.fd for key, _ in ready.select()):
            answers, _ = listener.accept()
            message, streams, _, _ = socket.recv_fds(answers, LONGEST_ORDER, 3)
            if not os.fork():
                listener.close()
                ready.close()
                watch_over(marshal.loads(message), streams, answers, spent)
                os._exit(0)
            answers.close()
            for stream in streams:
                os.close(stream)
            reap(os.WNOHANG)
    reap(0)


def reap(options: int) -> None:
    """Wait for keepers, so that the system adds their processor time to the server's."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    del sys.path[0]  # this directory
    serve(sys.argv[1])
