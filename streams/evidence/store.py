"""Signed checkpoints in directories: one directory of notes, and the store of a process."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from streams.errors import Refused, Unavailable
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.names import ledgers_named
from streams.evidence.note import Checkpoint, NoteInvalid, opened, signed
from streams.evidence.sinks import Kind

SUFFIX: Final = ".note"
_KEEP: Final = 4  # so that one cut by a loss of power leaves others
_KEY: Final = "key"
_FILE: Final = "file"
_KEYS: Final = "keys"


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


def default_directory() -> Path | None:
    """Return this user's directory of state, None without a home."""
    state = os.environ.get("XDG_STATE_HOME")
    try:
        base = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return base / "streaming-privacy-accountant" / "checkpoints"


class OtherNotes(NamedTuple):
    """Checkpoints of another ledger that lay where this one is.

    Attributes:
        folder: where they are.
    """

    newest: Checkpoint
    folder: Path


class Seen(NamedTuple):
    """What was found of a ledger.

    Attributes:
        kept: its checkpoints, by branch and number; its log must go on from the last one.
        copy_of: the file that this one is a copy of, if that is still there.
        others: what is left of ledgers that this one has replaced.
        key_before: the key that the log's checkpoints were signed by, where this one is another.
    """

    kept: tuple[Checkpoint, ...]
    copy_of: Path | None = None
    others: tuple[OtherNotes, ...] = ()
    key_before: str | None = None


class Kept:
    """The checkpoints of one partition's log.

    Args:
        own: directory of this log's.
        partition: its number.
        ledger: the ledger's id.
        key: signs its checkpoints.

    Attributes:
        ledger, key: as given.
        unread: how many files `seen` has left out, since none of its keys has signed them.

    Raises: Unavailable: the directory cannot be used.
    """

    def __init__(self, own: Path, partition: int, ledger: str, key: SigningKey) -> None:
        self._own = own
        self._partition = partition
        self._known = list[Verifier]()
        self._looked_at = set[str]()  # names of notes
        self.ledger = ledger
        self.key = key
        self.unread = 0

    def seen(self, named: str | None = None) -> Seen:
        """Return what was kept of this log.

        Args:
            named: the key that the log names, None while it names none.

        Raises: Unavailable: the directory cannot be read.
        """
        self.unread = 0
        try:
            self._known = self._known_keys(named)
            found = self._seen()
            return found._replace(others=self._others(), key_before=self._key_before(named))
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error

    def news(self, named: str | None, sequence: int, branch: int) -> tuple[Checkpoint, ...]:
        """Return a branch's checkpoints up to a number, none unless another process kept one.

        A later one may be of whoever owns the log by now: it is news again the next time.

        Raises: Unavailable: the directory cannot be read.
        """
        try:
            notes = list(self._notes(self._own))
            if {note.name for note in notes} <= self._looked_at:
                return ()
            self._known = self._known_keys(named)
            found = self._opened(notes)
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error
        later = {name for name, each in found if (each.branch, each.sequence) > (branch, sequence)}
        self._looked_at = {note.name for note in notes} - later
        return _ordered(e for name, e in found if e.branch == branch and name not in later)

    def _seen(self) -> Seen:
        return Seen(self._checkpoints(self._own))

    def _checkpoints(self, folder: Path) -> tuple[Checkpoint, ...]:
        notes = list(self._notes(folder))
        self._looked_at |= {note.name for note in notes}
        return _ordered(each for _, each in self._opened(notes))

    def _opened(self, notes: Iterable[Path]) -> list[tuple[str, Checkpoint]]:
        """Return those of these notes that are of this log and signed, by name."""
        found = list[tuple[str, Checkpoint]]()
        for note in notes:
            try:
                checkpoint = opened(note.read_bytes(), self._known)
            except FileNotFoundError:  # forgotten meanwhile
                continue
            except NoteInvalid:  # another key's
                self.unread += 1
                continue
            if (checkpoint.ledger, checkpoint.partition) == (self.ledger, self._partition):
                found.append((note.name, checkpoint))
        return found

    def _known_keys(self, named: str | None) -> list[Verifier]:
        """Return this key, the one that the log names, and those that have signed here."""
        lines = [named] if named else []
        for path in self._of_keys():
            lines += path.read_text("ascii").split()
        keys = {self.key.verifier.text: self.key.verifier}
        for line in lines:
            with contextlib.suppress(Refused):
                keys.setdefault(line, Verifier.parse(line))
        return list(keys.values())

    def _key_before(self, named: str | None) -> str | None:
        """Return the log's key, None if it is this one.

        It is the one that the log names; while it names none, the first one that has signed here.
        """
        lines = [named] if named else []
        for path in self._own.glob(_KEYS):
            lines += path.read_text("ascii").split()
        return lines[0] if lines and lines[0] != self.key.verifier.text else None

    def _others(self) -> tuple[OtherNotes, ...]:
        """Return the newest checkpoint of each other ledger that known keys have signed here."""
        found = []
        for folder in sorted({*self._of_others()} - {self._own}):
            checkpoints = list[Checkpoint]()
            for note in (folder / str(self._partition)).glob(f"*{SUFFIX}"):
                with contextlib.suppress(NoteInvalid, FileNotFoundError):
                    checkpoints.append(opened(note.read_bytes(), self._known))
            others = [each for each in checkpoints if each.ledger != self.ledger]
            if others:
                found.append(OtherNotes(_ordered(others)[-1], folder))
        return tuple(found)

    def _of_others(self) -> Iterator[Path]:
        """Yield where ledgers are that lay under this name: none that has another name now."""
        named = {folder_of(Path(), each).name for each in ledgers_named(self._own.parent)}
        return (each for each in self._own.parent.glob("*") if each.name not in named)

    def _of_keys(self) -> Iterator[Path]:
        return self._own.glob(_KEYS)

    def _notes(self, folder: Path) -> Iterator[Path]:
        return (folder / str(self._partition)).glob(f"*{SUFFIX}")

    def put(self, sequence: int, head: str, branch: int, at: int) -> tuple[Checkpoint, bytes]:
        """Keep a checkpoint, and forget older ones; return it with its note.

        Raises: Unavailable: it cannot be kept.
        """
        checkpoint = Checkpoint(self.ledger, self._partition, branch, sequence, head, at)
        note = signed(checkpoint, self.key)
        try:
            self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
            keys = self._own / _KEYS
            if self.key.verifier.text not in (keys.read_text("ascii") if keys.exists() else ""):
                with keys.open("a", encoding="ascii") as file:
                    file.write(f"{self.key.verifier.text}\n")
            self._before_first()
            folder = self._own / str(self._partition)
            self._looked_at.add(put_note(folder, checkpoint, note).name)
            # What another process kept meanwhile stays until it was compared.
            kept = [each for each in self._notes(self._own) if each.name in self._looked_at]
            for old in _forgettable(kept):
                old.unlink(missing_ok=True)
                self._looked_at.discard(old.name)
        except OSError as error:
            raise Unavailable(f"checkpoints cannot be kept: {error}") from error
        return checkpoint, note

    def _before_first(self) -> None:
        """Write what belongs beside the checkpoints."""


class KeptOfFile(Kept):
    """The checkpoints of one ledger's file, in a directory of its own for each path.

    Args:
        directory: where all ledgers' are.
        file: the ledger's file, absolute.
        ledger: its id.
        is_same_ledger: whether another file that is still there holds the same ledger.
        key: file of the key; made in the directory if None.

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
        self._of_ledger = folder_of(directory, ledger)
        own = self._of_ledger / hashlib.sha256(str(file).encode()).hexdigest()[:16]
        super().__init__(own, 0, ledger, key_of(directory, key))
        self._file = file
        self._is_same_ledger = is_same_ledger

    def _seen(self) -> Seen:
        """Return what was kept of this file; of one that is no more, where it lay elsewhere."""
        own = self._checkpoints(self._own)
        if own or not self._of_ledger.is_dir():
            return Seen(own)
        elsewhere, copy_of = set[Checkpoint](), None
        for folder in sorted({*self._of_ledger.iterdir()} - {self._own}):
            if not (folder / _FILE).exists():
                continue  # a process was killed before its first checkpoint
            path = Path((folder / _FILE).read_text("utf-8"))
            if self._is_same_ledger(path):
                copy_of = path
            else:
                elsewhere.update(self._checkpoints(folder))
        # Of a copy nothing is asked: the original knows more.
        return Seen(() if copy_of is not None else _ordered(elsewhere), copy_of)

    def _of_others(self) -> Iterator[Path]:
        return self._of_ledger.parent.glob(f"*/{self._own.name}")

    def _of_keys(self) -> Iterator[Path]:
        return self._of_ledger.glob(f"*/{_KEYS}")

    def _before_first(self) -> None:
        named = self._own / _FILE
        if not named.exists():
            named.write_text(str(self._file), "utf-8")


def folder_of(directory: Path, ledger: str) -> Path:
    """Return where the checkpoints of a ledger are."""
    return directory / ledger.replace(":", "-")


def key_of(directory: Path, file: Path | None) -> SigningKey:
    """Return the key in a file; the one in the directory, made if it is missing, if None.

    Raises: Unavailable, Refused: it cannot be used.
    """
    return _key(directory) if file is None else SigningKey.load(file)


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


def _ordered(found: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    """Return checkpoints by branch and number, each once."""
    return tuple(sorted({*found}, key=lambda each: (each.branch, each.sequence, each.at)))


def _forgettable(notes: Iterable[Path]) -> list[Path]:
    """Return old notes, without the first of each later branch: it shows where that began."""
    rest, branch = list[Path](), 0
    for note in sorted(notes, key=_order):
        if _order(note)[0] == branch:
            rest.append(note)
        branch = _order(note)[0]
    return rest[:-_KEEP]


def _order(note: Path) -> tuple[int, int]:
    branch, sequence, _ = note.name.split("-", 2)
    return int(branch), int(sequence)
