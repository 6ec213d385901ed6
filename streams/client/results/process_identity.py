"""Which process this is, in words that another process can check: is it still there?"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path


def this_process() -> str:
    """Return this process: its machine, boot, space of process numbers, number and start."""
    return json.dumps([*_machine(), os.getpid(), _start_time(os.getpid())])


def has_ended(process: str) -> bool:
    """Tell whether a process has ended for certain; of another machine's nothing is certain.

    Args:
        process: as `this_process` has returned it there.
    """
    try:
        host, boot, namespace, pid, started = json.loads(process)
    except ValueError:
        return False
    own_host, own_boot, own_namespace = _machine()
    if host != own_host:
        return False
    if boot != own_boot:
        return boot is not None and own_boot is not None  # the machine was started again since
    if namespace != own_namespace:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        pass
    now = _start_time(pid)
    # Numbers are used again: a process that started at another time is another process.
    return started is not None and now is not None and now != started


def _machine() -> tuple[str, str | None, str | None]:
    return socket.gethostname(), _read_text("/proc/sys/kernel/random/boot_id"), _pid_namespace()


def _pid_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def _start_time(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot; None where the system has no /proc.

    Its state is in the field before: a process that has ended, but is not waited for, has none.
    """
    text = _read_text(f"/proc/{pid}/stat")
    if text is None:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return "ended" if fields[0] in {"Z", "X"} else fields[19]


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
