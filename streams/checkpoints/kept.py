"""Where a ledger's own process keeps its checkpoints, and what it finds there at its next start.

    DIRECTORY/key                                           signs them, made at first use
    DIRECTORY/LEDGER/COPY/file                              path of the ledger's file
    DIRECTORY/LEDGER/COPY/keys                              public halves of those that have signed
    DIRECTORY/LEDGER/COPY/PARTITION/BRANCH-SEQUENCE-HEAD.note

A copy of a ledger that is opened at another path has a folder of its own: it cannot stop the
original, and is told that it is a copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from streams.checkpoints.directory import SUFFIX, put_note
from streams.checkpoints.keys import SigningKey, Verifier
from streams.checkpoints.note import Checkpoint, NoteInvalid, opened, signed
from streams.errors import Refused, Unavailable

_KEEP: Final = 4  # of a branch, so that one cut by a loss of power leaves others
_KEY: Final = "key"
_FILE: Final = "file"
_KEYS: Final = "keys"


def default_directory() -> Path | None:
    """Return this user's directory of state, None without a home."""
    state = os.environ.get("XDG_STATE_HOME")
    try:
        base = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return base / "streaming-privacy-accountant" / "checkpoints"


class Seen(NamedTuple):
    """What was found of a ledger.

    Attributes:
        kept: its checkpoints, by branch and number; its log must go on from the last one.
        copy_of: the file that this one is a copy of, if that is still there.
    """

    kept: tuple[Checkpoint, ...]
    copy_of: Path | None = None


class Kept:
    """The checkpoints of one ledger's file.

    Args:
        directory: where all ledgers' are.
        file: the ledger's file, absolute.
        ledger: its id.
        is_same_ledger: whether another file that is still there holds the same ledger.
        key: file of the key; made in the directory if None.

    Attributes:
        ledger: its id.
        key: signs its checkpoints.
        unread: how many files `seen` has left out, since this key has not signed them.

    Raises: Unavailable, Refused: the directory or the key cannot be used.
    """

    def __init__(
        self,
        directory: Path,
        file: Path,
        ledger: str,
        is_same_ledger: Callable[[Path], bool],
        *,
        key: Path | None = None,
    ) -> None:
        self._of_ledger = directory / ledger.replace(":", "-")
        self._own = self._of_ledger / hashlib.sha256(str(file).encode()).hexdigest()[:16]
        self._file = file
        self.ledger = ledger
        self._is_same_ledger = is_same_ledger
        self._known = list[Verifier]()
        self.unread = 0
        self.key = _key(directory) if key is None else SigningKey.load(key)

    def seen(self) -> Seen:
        """Return what was kept of this file; of one that is no more, where it lay elsewhere.

        Raises: Unavailable: the directory cannot be read.
        """
        self.unread = 0
        try:
            self._known = self._known_keys()
            own = self._checkpoints(self._own)
            if own or not self._of_ledger.is_dir():
                return Seen(own)
            elsewhere, copy_of = set[Checkpoint](), None
            for folder in sorted({*self._of_ledger.iterdir()} - {self._own}):
                path = Path((folder / _FILE).read_text("utf-8"))
                if self._is_same_ledger(path):
                    copy_of = path
                else:
                    elsewhere.update(self._checkpoints(folder))
            # Of a copy nothing is asked: the original knows more.
            return Seen(() if copy_of is not None else _ordered(elsewhere), copy_of)
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error

    def _checkpoints(self, folder: Path) -> tuple[Checkpoint, ...]:
        found = set[Checkpoint]()
        for note in _notes(folder):
            try:
                checkpoint = opened(note.read_bytes(), self._known)
            except NoteInvalid:  # another key's
                self.unread += 1
                continue
            if checkpoint.ledger == self.ledger:
                found.add(checkpoint)
        return _ordered(found)

    def _known_keys(self) -> list[Verifier]:
        """Return the keys that have signed checkpoints of this ledger here, this one's included."""
        keys = {self.key.verifier.text: self.key.verifier}
        for path in sorted(self._of_ledger.glob(f"*/{_KEYS}")):
            for line in path.read_text("ascii").split():
                with contextlib.suppress(Refused):
                    keys.setdefault(line, Verifier.parse(line))
        return list(keys.values())

    def put(self, sequence: int, head: str, branch: int, at: int) -> None:
        """Keep a checkpoint, and forget older ones.

        Raises: Unavailable: it cannot be kept.
        """
        checkpoint = Checkpoint(self.ledger, 0, branch, sequence, head, at)
        try:
            self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
            named, keys = self._own / _FILE, self._own / _KEYS
            if not named.exists():
                named.write_text(str(self._file), "utf-8")
            if self.key.verifier.text not in (keys.read_text("ascii") if keys.exists() else ""):
                with keys.open("a", encoding="ascii") as file:
                    file.write(f"{self.key.verifier.text}\n")
            put_note(self._own / "0", checkpoint, signed(checkpoint, self.key))
            for old in sorted(_notes(self._own), key=_order)[:-_KEEP]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"checkpoints cannot be kept: {error}") from error


def _key(directory: Path) -> SigningKey:
    """Return the key in a directory, made if it is missing."""
    path = directory / _KEY
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            with contextlib.suppress(Refused):  # another process was first
                return SigningKey.create(path, "accountant")
    except OSError as error:
        raise Unavailable(f"checkpoints cannot be kept in {directory}: {error}") from error
    return SigningKey.load(path)


def _notes(folder: Path) -> Iterator[Path]:
    return (folder / "0").glob(f"*{SUFFIX}")


def _order(note: Path) -> tuple[int, int]:
    branch, sequence, _ = note.name.split("-", 2)
    return int(branch), int(sequence)


def _ordered(checkpoints: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    return tuple(sorted(checkpoints, key=lambda each: (each.branch, each.sequence, each.at)))
