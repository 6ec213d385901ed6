"""Sockets to listen at, and why an address cannot be listened at."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import sys
from pathlib import Path
from typing import Final, NamedTuple

from streams.errors import Refused
from streams.files.lock_holder import LockHolder, running_command
from streams.settings import PREFIX, Settings

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


class Options(NamedTuple):
    """How a person chooses another port, and another address, in words."""

    port: str
    address: str


def options_of(settings: Settings, *, port: str, has_bind: bool = False) -> Options:
    """Return the options of a process whose address is the settings'.

    Args:
        port: as in words. `has_bind`: the command has `--bind`.
    """
    variable = PREFIX + ("BIND" if settings.authenticates else "UNAUTHENTICATED_BIND")
    return Options(port, f"--bind ({variable})" if has_bind else variable)


def bind_socket(host: str, port: int, options: Options) -> socket.socket:
    """Return a socket bound to an address.

    Raises: Refused: the address is taken or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for an explicit TCP socket: it costs 40 ms an answer.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        made.close()
        why = f"cannot listen at {host} port {port}"
        raise Refused(f"{why}: {_why(error, host, port, options)}") from error
    return made


def _why(error: OSError, host: str, port: int, options: Options) -> str:
    """Return why a socket cannot be bound, and what to do."""
    if error.errno == errno.EADDRINUSE:
        holder = listener_at(port)
        if holder.pid == os.getpid():
            who, stop = "this process listens there already, at another of its ports", ""
        else:
            who, stop = f"{holder} listens there", "Stop it, or choose"
        return f"{who}. {stop or 'Choose'} another port by {options.port}"
    if error.errno in {errno.EACCES, errno.EPERM}:
        denied = error.strerror or str(error)
        who = "this user may not listen at ports as low" if port < 1024 else denied
        return f"{who}. Choose another port by {options.port}"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        rest = f"Choose another one by {options.address}"
        return f"{host} is no address of this machine. {rest}"
    rest = f"Choose another port by {options.port}, or another address by {options.address}"
    return f"{error.strerror or error}. {rest}"


def listener_at(port: int) -> LockHolder:
    """Return the process that listens at a port, as far as Linux tells this user."""
    wanted = _listening_sockets(port)
    for each in Path("/proc").glob("[0-9]*/fd") if wanted else ():
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            for fd in each.iterdir():
                found = _SOCKET.fullmatch(str(fd.readlink()))
                if found is not None and found[1] in wanted:
                    pid = int(each.parent.name)
                    return LockHolder(pid, command=running_command(pid))
    return LockHolder()


def _listening_sockets(port: int) -> set[str]:
    """Return the inodes of the sockets that listen at a port."""
    found = set[str]()
    if sys.platform != "linux":
        return found
    for table in _TABLES:
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in table.read_text(encoding="ascii").split("\n")[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found
