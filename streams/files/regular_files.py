"""Opens a regular file for reading: a pipe in its place never waits for a writer."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegular(OSError):
    """What is at the path is a pipe, a device, a socket or a directory."""


def open_regular(path: Path, *, follow_links: bool = True) -> BinaryIO:
    """Open a file for reading.

    Raises: NotRegular. OSError.
    """
    follow = 0 if follow_links else os.O_NOFOLLOW
    # Non-blocking: opening a pipe would wait for a writer, and no signal ends that in a thread.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotRegular(errno.EINVAL, "it is no regular file", str(path))
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise
