"""A directory of checkpoints, best on another machine's disk or where only additions are taken."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streams.errors import Unavailable
from streams.evidence.note import Checkpoint
from streams.evidence.places.place import Kind

SUFFIX: Final = ".note"


class Directory:
    """Keeps each checkpoint as a file, `LEDGER/PARTITION/BRANCH-SEQUENCE-HEAD.note`.

    Two different heads of one place in the log are two files: neither replaces the other.

    Args:
        must_exist: never make the directory itself: where another machine's disk is not mounted,
            what is made in its place is on this one's.
    """

    kind: Kind = "directory"

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path = path
        self._must_exist = must_exist
        self.name = str(path)

    def put(self, checkpoint: Checkpoint, note: bytes) -> str:
        """Keep a checkpoint, synced to disk; one that is there already stays as it is.

        Raises: Unavailable: the directory cannot be written.
        """
        if self._must_exist and not self.path.is_dir():
            raise Unavailable(f"checkpoints cannot be kept: {self.path} is no directory")
        folder = self.path / checkpoint.ledger.replace(":", "-") / str(checkpoint.partition)
        return str(put_note(folder, checkpoint, note))

    def notes(self) -> Iterator[tuple[str, bytes]]:
        """Yield every note with its file's name, of whatever ledger.

        Raises: Unavailable: the directory cannot be read.
        """
        try:
            if not self.path.is_dir():
                raise NotADirectoryError(f"{self.path} is no directory")
            for file in sorted(self.path.rglob(f"*{SUFFIX}")):
                yield file.name, file.read_bytes()
        except OSError as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error


def put_note(folder: Path, checkpoint: Checkpoint, note: bytes) -> Path:
    """Write a note into a folder, synced to disk; one that is there already stays as it is.

    Raises: Unavailable: the folder cannot be written.
    """
    head = checkpoint.head.removeprefix("sha256:")[:16]
    name = f"{checkpoint.branch}-{checkpoint.sequence:019d}-{head}"
    file, partial = folder / f"{name}{SUFFIX}", folder / f".{name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if file.exists():
            return file
        with partial.open("wb") as out:
            out.write(note)
            out.flush()
            os.fsync(out.fileno())
        partial.rename(file)
        _sync(folder)
    except OSError as error:
        raise Unavailable(f"checkpoints cannot be kept in {folder}: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return file


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
