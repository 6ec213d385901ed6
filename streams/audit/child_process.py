"""Starts a process of this program's own that talks to it through a pipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess


def start_process(
    target: Callable[..., None], *arguments: object
) -> tuple[Connection, SpawnProcess]:
    """Start a process that calls a function; return this process's end of a pipe, and the process.

    It ends with this process.

    Args:
        target: called with the other end of the pipe, and the arguments.
    Raises: OSError: the system starts none, for lack of memory, processes or files.
    """
    import multiprocessing

    # Spawned, not forked: the client of Kafka and the progress bar have threads.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    try:
        process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, process
