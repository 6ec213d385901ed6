"""Identifies a process so that another process can check whether it still runs."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path


def this_process() -> str:
    """Return the identity of this process: machine, boot, pid namespace, pid and start time."""
    return json.dumps([*_machine(), os.getpid(), _start_time(os.getpid())])


def has_ended(process: str) -> bool:
    """Whether a process has certainly ended; False for a process on another machine.

    Args:
        process: what `this_process` returned in that process.
    """
    try:
        host, boot, namespace, pid, started = json.loads(process)
    except ValueError:
        return False
    own_host, own_boot, own_namespace = _machine()
    if host != own_host:
        return False
    if boot != own_boot:
        return boot is not None and own_boot is not None  # the machine was rebooted
    if namespace != own_namespace:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it belongs to another user
        pass
    now = _start_time(pid)
    # Pids are reused: a process with another start time is another process.
    return started is not None and now is not None and now != started


def process_words(process: str) -> str:
    """Return where a process runs, for people: `this process (pid 7)`, `process 7 on HOST`.

    Args:
        process: what `this_process` returned in that process.
    """
    try:
        host, _, _, pid, _ = json.loads(process)
    except ValueError:
        return "another process"
    if process == this_process():
        return f"this process (pid {pid})"
    return f"process {pid} on {'this machine' if host == socket.gethostname() else host}"


def _machine() -> tuple[str, str | None, str | None]:
    return socket.gethostname(), _read_text("/proc/sys/kernel/random/boot_id"), _pid_namespace()


def _pid_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def _start_time(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot; None without /proc.

    A process that has ended, but was not waited for, is "ended".
    """
    text = _read_text(f"/proc/{pid}/stat")
    if text is None:
        return None
    fields = text.rpartition(")")[2].split()  # the process name before it may contain anything
    return "ended" if fields[0] in {"Z", "X"} else fields[19]


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
