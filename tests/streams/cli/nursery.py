"""Runs commands as processes of their own, forked from one that has done the imports.

Starting Python and importing takes most of a command's time; a fork has done both and
nothing else. Reads one JSON object a line from the file descriptor that is its argument:
`arguments`, `cwd`, `env`, and the files `stdin`, `out` and `err`; writes a line with the exit code
and the processor seconds of each command to stdout.
Where `out` is `|`, it is a pipe that nobody reads.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from typing import Any, NoReturn

from streams.cli.root import command, main
from streams.settings import Settings

STARTS = ("streams.cli",)

# What commands import when they run.
_WARM = (
    "accountant.replay.audit",
    "streams.cli.demo.screen",
    "streams.cli.reading.log_reader",
    "streams.cli.printing.explanations",
    "streams.cli.printing.output",
    "streams.cli.printing.tables",
    "streams.cli.reading.dataset_reader",
    "streams.client",
    "streams.cli.demo.targets",
    "streams.cli.demo.replay",
    "streams.logs",
    "accountant.views.population",
    "streams.evidence.comparison",
    "streams.evidence.checkpointer",
    "streams.evidence.key_changes",
    "streams.evidence.log_signatures",
)


def unread() -> int:
    """Return the end of a pipe to write to, whose other end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def run(order: dict[str, Any]) -> NoReturn:
    """Become the command."""
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (name, mode) in enumerate(zip(("stdin", "out", "err"), modes, strict=True)):
        os.dup2(unread() if order[name] == "|" else os.open(order[name], mode, 0o600), number)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["accountant", *order["arguments"]]
    if encoding := order["env"].get("PYTHONIOENCODING"):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding=encoding, errors="strict")
    code = 70
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def serve(orders: int) -> None:
    """Fork for each order until there are no more."""
    for name in _WARM:
        importlib.import_module(name)
    dict(command().commands)  # imports each, and makes its options
    Settings.model_rebuild()
    gc.freeze()
    with os.fdopen(orders, encoding="utf-8") as lines:
        for line in iter(lines.readline, ""):
            child = os.fork()
            if not child:
                run(json.loads(line))
            _, status, used = os.wait4(child, 0)
            seconds = used.ru_utime + used.ru_stime
            os.write(1, f"{os.waitstatus_to_exitcode(status)} {seconds}\n".encode())


if __name__ == "__main__":
    serve(int(sys.argv[1]))
