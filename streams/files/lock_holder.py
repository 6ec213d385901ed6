"""The note in a lock file: which process holds the lock, for the messages of those who wait.

The lock itself is the operating system's. The note is only text: a note that is missing, cut off
or left behind by an ended process changes a message, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from accountant.display.times import moment
from accountant.foreign_text import escape_text
from accountant.times import iso

_MAX_BYTES: Final = 4096
_MAX_TEXT: Final = 80
_END_OF_TIMES: Final = 253_402_300_800_000  # the year 10000, in milliseconds since 1970
_LOCK_TABLE: Final = Path("/proc/locks")


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds a lock; None for what its note does not say.

    Attributes:
        pid: its number.
        address: of its HTTP server.
        command: its program, without arguments that could be secret.
        since: when it took the lock, milliseconds since 1970.
        host: its machine.
    """

    pid: int | None = None
    address: str | None = None
    command: str | None = None
    since: int | None = None
    host: str | None = None

    def __str__(self) -> str:
        """Return the process in words: `process 4711 (python notebook.py)`."""
        name = "another process" if self.pid is None else f"process {self.pid}"
        command = f" ({self.command})" if self.command else ""
        elsewhere = self.host is not None and self.host != socket.gethostname()
        return f"{name}{command}" + (f" on host {self.host}" if elsewhere else "")

    @property
    def since_words(self) -> str:
        """When it took the lock, in words: ` since 2026-11-21 10:00 UTC`; "" if unknown."""
        return "" if self.since is None else f" since {moment(iso(self.since))}"


def this_process(since: int, address: str | None = None) -> LockHolder:
    """Return this process as a holder.

    Args:
        since: when it took the lock, milliseconds since 1970.
        address: of its HTTP server, None if it has none.
    """
    return LockHolder(
        os.getpid(), address, command_name(sys.orig_argv), since, socket.gethostname()
    )


def write_holder(fd: int, holder: LockHolder) -> None:
    """Write a holder into its lock's file.

    Raises: OSError.
    """
    fields = {name: getattr(holder, name) for name in LockHolder.__slots__}
    line = (json.dumps(fields) + "\n").encode()
    # In this order any reader finds a whole first line.
    os.pwrite(fd, line, 0)
    os.truncate(fd, len(line))


def read_holder(fd: int) -> LockHolder:
    """Return the holder that a lock's file names; one without any detail if it names none."""
    try:
        fields = json.loads(os.pread(fd, _MAX_BYTES, 0).partition(b"\n")[0] or b"{}")
    except (OSError, ValueError, RecursionError):
        return LockHolder()
    if not isinstance(fields, dict):
        return LockHolder()
    since = _number(fields, "since")
    holder = LockHolder(
        pid=_number(fields, "pid") or None,
        address=_text(fields, "address"),
        command=_text(fields, "command"),
        since=since if since is not None and since < _END_OF_TIMES else None,
        host=_text(fields, "host"),
    )
    if _has_ended(holder):  # the new holder has not written its note yet
        return replace(holder, pid=None, command=None, since=None)
    return holder


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else None


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        return None
    return value if name == "address" else escape_text(value)[:_MAX_TEXT]


def _has_ended(holder: LockHolder) -> bool:
    if holder.pid is None or holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it belongs to another user
        pass
    return False


def command_name(arguments: Sequence[str]) -> str:
    """Return the name of a program as people know it, such as `accountant serve`.

    Only the first word of an `accountant` command is named: other arguments may be secret.

    Args:
        arguments: the whole command line, with the interpreter.
    """
    program, *rest = arguments or [""]
    name = Path(program).name
    if not name.lower().startswith("python"):
        return name[:_MAX_TEXT] or "unknown program"
    while rest and rest[0].startswith("-") and rest[0] not in {"-m", "-c", "-"}:
        rest = rest[2 if rest[0] in {"-W", "-X"} else 1 :]
    if not rest or rest[0] in {"-c", "-"}:
        return "python"
    if rest[0] == "-m":
        return " ".join(["python", *rest[:2]])[:_MAX_TEXT]
    script = Path(rest[0]).name
    if script != "accountant":
        return f"python {script}"[:_MAX_TEXT]
    return " ".join([script, *(word for word in rest[1:2] if word.isalpha())])[:_MAX_TEXT]


def find_flock_holder(device: int, inode: int) -> LockHolder:
    """Return the process that has locked a file by `flock`, from Linux's table of locks."""
    with contextlib.suppress(OSError, ValueError):
        for line in _LOCK_TABLE.read_text(encoding="ascii").split("\n")[:-1]:
            fields = line.split()
            if fields[1:4:2] != ["FLOCK", "WRITE"]:
                continue
            pid = int(fields[4])
            major, minor, number = fields[5].split(":")
            found = os.makedev(int(major, 16), int(minor, 16)), int(number)
            if pid > 0 and found == (device, inode):
                return LockHolder(pid, command=running_command(pid))
    return LockHolder()


def running_command(pid: int) -> str | None:
    """Return the name of a running program, None where this user may not see it."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return None
    words = line.decode("utf-8", "replace").split("\0")[:-1]
    return escape_text(command_name(words)) if words else None
