"""Files that others may not change, and secrets that others may not read, whatever the umask is."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from streams.clock import steady
from streams.error_words import write_words
from streams.errors import Refused
from streams.files.owners import open_lock, wrong_owner
from streams.files.regular_files import NotRegular, open_regular
from streams.files.whole_files import write_whole
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_SUFFIXES = ("", "-wal", "-shm")
LOCK_WAIT_S: Final = 30.0
"""The longest wait for another process that changes a private file."""
_LOCK_POLL_S: Final = 0.01
_warned_of = set[Path]()
_making = threading.Lock()
os.register_at_fork(
    before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release
)


class PrivateFile(NamedTuple):
    """A file as it was read: at most the bytes that were asked for, and its metadata."""

    content: bytes
    status: os.stat_result


def read_private(
    path: Path, most: int, *, what: str, then: str, own_only: bool = False
) -> PrivateFile:
    """Read a secret: a file that only its user may access.

    Args:
        most: bytes to read at most; ask for one more than the limit to notice a longer file.
        what: the file that should be there, such as "the file of tokens".
        then: what to do after `chmod`, since others may have read or changed the file.
        own_only: also refuse a symbolic link, and a file of another user.

    Raises:
        FileNotFoundError: it does not exist.
        Refused: it cannot be read, is no regular file, or is accessible to other users.
    """
    return _read(path, most, what=what, then=then, own_only=own_only, secret=True)


def read_trusted(path: Path, most: int, *, what: str, then: str) -> bytes:
    """Read a file that decides who may do or read something: others may read it, none change it.

    Raises:
        FileNotFoundError: it does not exist.
        Refused: it cannot be read, is no regular file, or other users may change it.
    """
    return _read(path, most, what=what, then=then, secret=False).content


def check_trusted(path: Path, *, secret: bool, then: str) -> None:
    """Check a file that a library reads by its path.

    Raises:
        OSError: it cannot be read.
        Refused: other users may change it or, if it is a secret, read it.
    """
    with open_regular(path) as file:
        _check(path, os.fstat(file.fileno()), then, secret=secret, is_fixed=_is_fixed(file))


def _read(
    path: Path, most: int, *, what: str, then: str, secret: bool, own_only: bool = False
) -> PrivateFile:
    try:
        with open_regular(path, follow_links=not own_only) as file:
            status = os.fstat(file.fileno())
            if own_only and status.st_uid != os.geteuid():
                raise Refused(f"{path} belongs to another user. Remove it, and {then}")
            _check(path, status, then, secret=secret, is_fixed=_is_fixed(file))
            return PrivateFile(file.read(most), status)
    except FileNotFoundError:
        raise
    except NotRegular as error:
        raise Refused(f"{path} is not a regular file: name {what}") from error
    except OSError as error:
        if own_only and error.errno == errno.ELOOP:
            raise Refused(f"{path} is a symbolic link. Remove it, and {then}") from error
        if error.errno == errno.EACCES and (why := wrong_owner(path)):
            raise Refused(f"{path} cannot be read: it {why}") from error
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from error


def _is_fixed(file: BinaryIO) -> bool:
    """Tell whether a file is on a read-only mount, such as a Secret's or a volume with `:ro`."""
    return bool(os.fstatvfs(file.fileno()).f_flag & os.ST_RDONLY)


def check_private(path: Path, status: os.stat_result, then: str = "") -> None:
    """Check that only a file's user may access it.

    Args:
        then: what to do after `chmod`.
    Raises: Refused.
    """
    _check(path, status, then, secret=True, is_fixed=False)


def _check(path: Path, status: os.stat_result, then: str, *, secret: bool, is_fixed: bool) -> None:
    """Check mode and owner of a file: the one rule for all files of settings.

    Root decides who reads its files, such as those that Kubernetes mounts. A read-only mount keeps
    its owner from nothing elsewhere, so modes count there too.

    Args:
        is_fixed: it is on a read-only mount, as of Kubernetes, or of a volume with `:ro`.
    Raises: Refused.
    """
    mode, user = stat.S_IMODE(status.st_mode), os.geteuid()
    more = f" and {then}" if then else ""
    if user and status.st_uid not in {0, user} and not is_fixed:
        raise Refused(
            f"{path} belongs to another user, who can change it. Make root or the user of this "
            f"process its owner, with `chown`{f',{more}' if more else ''}"
        )
    is_of_root = status.st_uid == 0 and (is_fixed or bool(user))
    if secret and mode & (0o022 if is_of_root else 0o077):
        raise Refused(f"{path} is accessible to other users. Run `chmod 600 {path}`{more}")
    if mode & 0o022:
        raise Refused(f"{path} can be changed by other users. Run `chmod go-w {path}`{more}")
    if secret and mode & 0o004 and path not in _warned_of:
        _warned_of.add(path)
        _log.warning(
            "secret_open_to_others",
            file=str(path),
            mode=f"{mode:04o}",
            why="it belongs to root, and every user of this machine can read it",
            do=f"chmod o-r {path}, with this process's group as its group",
        )


@contextlib.contextmanager
def lock_against_writers(path: Path) -> Iterator[None]:
    """Lock a private file against other processes that change it; readers need no lock.

    Raises: Refused: the lock file next to it cannot be created, or another process has it too long.
    """
    target = path.resolve()  # a link's target, so that all processes use one lock
    try:
        fd = open_lock(target.with_name(f"{target.name}.lock"))
    except OSError as error:
        raise Refused(f"{path} cannot be changed: {error.strerror or error}") from error
    try:
        _take_lock(fd, path)
        yield
    finally:
        os.close(fd)


def _take_lock(fd: int, path: Path) -> None:
    """Lock an open file; another process may be stopped while it has the lock."""
    deadline = steady() + LOCK_WAIT_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if steady() > deadline:
                raise Refused(
                    f"another process has locked {path} for {LOCK_WAIT_S:g} s. Wait until it has "
                    "ended, or end it"
                ) from None
        time.sleep(_LOCK_POLL_S)


def replace_private(path: Path, content: bytes, *, of_service: bool = False) -> None:
    """Replace a private file as a whole: a reader gets the old one or the new one.

    The file has mode 0600 from its first byte. Its owner stays, also if root replaces it.

    Args:
        of_service: root gives a new file to the owner of its directory, whose service reads it.
    Raises: Refused: it cannot be written.
    """
    try:
        with write_whole(path, replace=True, of_service=of_service) as file:
            file.write(content)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {write_words(error, path)}") from error


def state_directory(name: str) -> Path | None:
    """Return a directory of this user's state, None without a home directory."""
    state = os.environ.get("XDG_STATE_HOME")
    try:
        base = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return base / "streaming-privacy-accountant" / name


def make_private(path: Path, mode: int = 0o600) -> None:
    """Create an empty file with a mode; an existing file stays as it is.

    SQLite gives its -wal and -shm files the mode of the database file.
    Raises: OSError.
    """
    # One at a time: closing a new file drops the locks that another thread, which sees the file,
    # would hold on it through SQLite.
    with _making:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return
        try:
            os.fchmod(fd, mode)
        finally:
            os.close(fd)


def file_mode(path: Path) -> int | None:
    """Return the mode of a file, None if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def ensure_private(*databases: Path) -> None:
    """Create missing SQLite databases for their user only; log which files others can access."""
    for path in databases:
        with contextlib.suppress(OSError):  # opening the database reports a wrong path
            make_private(path)
    files = [path.with_name(path.name + end) for path in databases for end in _SUFFIXES]
    found = [file for file in files if (file_mode(file) or 0) & 0o077]
    if found:
        names = " ".join(map(str, found))
        _log.warning(
            "files_open_to_others",
            files=names,
            why="other users of this machine can read what this server does not show them",
            do=f"chmod 600 {names}",
        )
