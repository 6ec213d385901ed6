"""The owner of a new file, and the words for a file that belongs to another user.

Root runs commands for a service, which must then read what they made.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Final

CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How to open a file that must not be there yet."""


def give_to_owner_of(path: Path, fd: int) -> None:
    """Give a new file of root to the owner of a path, such as the directory that it is in.

    Raises: OSError.
    """
    owner = path.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(fd, owner.st_uid, owner.st_gid)


def open_lock(path: Path) -> int:
    """Open a lock file; a new one has mode 0600, and root gives it to its directory's owner.

    An existing file keeps its owner: a user could have linked another user's file there.
    Raises: OSError.
    """
    try:
        fd = os.open(path, CREATE, 0o600)
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    give_to_owner_of(path.parent, fd)
    return fd


def wrong_owner(path: Path) -> str:
    """Return what to do where a file belongs to another user than this process's; "" if not.

    The words go after the file's path.
    """
    try:
        status = path.stat()
    except OSError:
        return ""
    if status.st_uid == os.geteuid():
        return ""
    owner, user = _name(status.st_uid), _name(os.geteuid())
    return f"belongs to {owner}, and this process runs as {user}. Run `chown {user} {path}`"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
