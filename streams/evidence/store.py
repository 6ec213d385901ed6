"""Signed checkpoints in directories: a directory as a sink, and the store of a process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from streams.error_words import write_words
from streams.errors import Refused, Unavailable
from streams.evidence.copies import OtherPath
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.ledger_binding import ledgers_named, place_of
from streams.evidence.signed_checkpoint import (
    ANSWERS_SUFFIX,
    SUFFIX,
    Checkpoint,
    CheckpointInvalid,
    SignedHead,
    open_signed,
    sign_checkpoint,
)
from streams.evidence.sinks import Kind
from streams.files.ledger_url import url_option
from streams.files.private_files import state_directory
from streams.files.whole_files import write_whole

_KEEP: Final = 4  # a file torn by a power loss leaves others
_KEY: Final = "key"
FILE: Final = "file"
"""The name of the file with a ledger's path, beside its checkpoints."""
_KEYS: Final = "keys"


class Directory:
    """A sink that stores each checkpoint as a file, `LEDGER/PARTITION/BRANCH-SEQUENCE-HEAD.note`.

    Two different heads of the same decision are two files, so that a fork stays visible.

    Args:
        must_exist: never create the directory: if it is another machine's disk that is not
            mounted, the new directory would be on this machine.
    """

    kind: Kind = "directory"

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path = path
        self._must_exist = must_exist
        self.name = str(path)

    def put(self, checkpoint: SignedHead, signed_text: bytes) -> str:
        """Store a checkpoint, synced to disk; an existing file stays unchanged.

        Raises: Unavailable: the directory cannot be written.
        """
        if self._must_exist and not self.path.is_dir():
            raise Unavailable(f"checkpoints cannot be stored: {self.path} is not a directory")
        folder = self.path / checkpoint.ledger.replace(":", "-") / str(checkpoint.partition)
        return str(write_checkpoint(folder, checkpoint, signed_text))

    def notes(self) -> Iterator[tuple[str, bytes]]:
        """Yield every signed checkpoint with its file's name, of any ledger.

        Raises: Unavailable: the directory cannot be read.
        """
        try:
            if not self.path.is_dir():
                raise NotADirectoryError(f"{self.path} is not a directory")
            for suffix in (SUFFIX, ANSWERS_SUFFIX):
                for file in sorted(self.path.rglob(f"*{suffix}")):
                    yield file.name, file.read_bytes()
        except OSError as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error


def write_checkpoint(folder: Path, checkpoint: SignedHead, signed_text: bytes) -> Path:
    """Write a signed checkpoint into a folder, synced to disk; an existing file stays unchanged.

    Raises: Unavailable: the folder cannot be written.
    """
    file = folder / checkpoint.file_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if file.exists():
            return file
        with write_whole(file, replace=True, mode=0o666) as out:
            out.write(signed_text)
    except OSError as error:
        why = write_words(error, file)
        raise Unavailable(f"checkpoints cannot be stored in {folder}: {why}") from error
    return file


def default_directory() -> Path | None:
    """Return this user's directory of checkpoints, None without a home directory."""
    return state_directory("checkpoints")


class ReplacedLedger(NamedTuple):
    """A ledger that this one has replaced, known by its checkpoints.

    Attributes:
        folder: the directory of its checkpoints.
    """

    newest: Checkpoint
    folder: Path


class StoredCheckpoints(NamedTuple):
    """What was found of a ledger.

    Attributes:
        checkpoints: by branch and number; the log must continue from the last one.
        elsewhere: those of the same ledger at other paths.
        others: what is left of ledgers that this one has replaced.
        key_before: the key that the log's checkpoints were signed by, where this one is another.
    """

    checkpoints: tuple[Checkpoint, ...]
    elsewhere: tuple[OtherPath, ...] = ()
    others: tuple[ReplacedLedger, ...] = ()
    log_key: str | None = None


class CheckpointStore:
    """Stores the checkpoints of one partition's log.

    Args:
        own: this log's directory.
        partition: its number.
        ledger: the ledger's id.
        key: signs its checkpoints.

    Attributes:
        ledger, key: the arguments.
        unread: the number of files that `load` skipped, because no known key has signed them.
        options: those by which a command finds the log, after a blank.
        closed: the folders of other paths that cannot be read.

    Raises: Unavailable: the directory cannot be used.
    """

    def __init__(self, own: Path, partition: int, ledger: str, key: SigningKey) -> None:
        self._own = own
        self._partition = partition
        self._known = list[Verifier]()
        self._read_names = set[str]()  # names of notes
        self.ledger = ledger
        self.key = key
        self.unread = 0
        self.options = ""
        self.closed = list[Path]()

    @property
    def folder(self) -> Path:
        """This log's directory."""
        return self._own

    def load(self, named: str | None = None) -> StoredCheckpoints:
        """Return the stored checkpoints of this log.

        Args:
            named: the key that the log names, None while it names none.

        Raises: Unavailable: the directory cannot be read.
        """
        self.unread = 0
        try:
            self._known = self._known_keys(named)
            found = self._load()
            return found._replace(others=self._others(), log_key=self._key_before(named))
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error

    def newer(self, named: str | None, sequence: int, branch: int) -> tuple[Checkpoint, ...]:
        """Return a branch's checkpoints up to a number, if another process has stored any.

        A later one may belong to a newer owner of the log, so it is returned again next time.

        Raises: Unavailable: the directory cannot be read.
        """
        try:
            notes = self._notes(self._own)
            if {note.name for note in notes} <= self._read_names:
                return ()
            self._known = self._known_keys(named)
            found = self._read_signed(notes)
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error
        later = {name for name, each in found if (each.branch, each.sequence) > (branch, sequence)}
        self._read_names = {note.name for note in notes} - later
        return _sort(e for name, e in found if e.branch == branch and name not in later)

    def news_elsewhere(self, named: str | None) -> tuple[OtherPath, ...]:
        """Return the checkpoints of other paths, none if nothing was stored there since `load`.

        Raises: Unavailable: the directory cannot be read.
        """
        return ()

    def has_own(self) -> bool:
        """Tell whether a checkpoint of this log is in its directory, by the names of the files.

        Raises: Unavailable: the directory cannot be read.
        """
        try:
            return bool(self._notes(self._own))
        except OSError as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error

    def has_copy(self) -> bool:
        """Tell whether another file of this ledger is at a path that has checkpoints."""
        return False

    def _load(self) -> StoredCheckpoints:
        return StoredCheckpoints(self._checkpoints(self._own))

    def _checkpoints(self, folder: Path) -> tuple[Checkpoint, ...]:
        notes = self._notes(folder)
        self._read_names |= {note.name for note in notes}
        return _sort(each for _, each in self._read_signed(notes))

    def _read_signed(self, files: Iterable[Path]) -> list[tuple[str, Checkpoint]]:
        """Return the signed checkpoints of this log among some files, by name."""
        found = list[tuple[str, Checkpoint]]()
        for file in files:
            try:
                checkpoint = open_signed(file.read_bytes(), self._known)
            except FileNotFoundError:  # deleted meanwhile
                continue
            except CheckpointInvalid:  # signed by another key
                self.unread += 1
                continue
            if (checkpoint.ledger, checkpoint.partition) == (self.ledger, self._partition):
                found.append((file.name, checkpoint))
        return found

    def _known_keys(self, named: str | None) -> list[Verifier]:
        """Return this key, the key that the log names, and all that have signed here."""
        lines = [named] if named else []
        for path in self._key_files():
            try:
                lines += path.read_text("ascii").split()
            except (OSError, UnicodeDecodeError):
                if path.parent == self._own:
                    raise
        keys = {self.key.verifier.text: self.key.verifier}
        for line in lines:
            with contextlib.suppress(Refused):
                keys.setdefault(line, Verifier.parse(line))
        return list(keys.values())

    def _key_before(self, named: str | None) -> str | None:
        """Return the log's key, None if it is this one.

        The log's key is the one that it names, or else the first that has signed here.
        """
        lines = [named] if named else []
        for path in self._own.glob(_KEYS):
            lines += path.read_text("ascii").split()
        return lines[0] if lines and lines[0] != self.key.verifier.text else None

    def _others(self) -> tuple[ReplacedLedger, ...]:
        """Return the newest checkpoint of each other ledger that known keys have signed here."""
        found = []
        for folder in sorted({*self._replaced_folders()} - {self._own}):
            checkpoints = list[Checkpoint]()
            for note in (folder / str(self._partition)).glob(f"*{SUFFIX}"):
                with contextlib.suppress(CheckpointInvalid, FileNotFoundError):
                    checkpoints.append(open_signed(note.read_bytes(), self._known))
            others = [each for each in checkpoints if each.ledger != self.ledger]
            if others:
                found.append(ReplacedLedger(_sort(others)[-1], folder))
        return tuple(found)

    def _replaced_folders(self) -> Iterator[Path]:
        """Yield the folders of ledgers without a name of their own any more: they were replaced."""
        named = {folder_of(Path(), each).name for each in ledgers_named(self._own.parent)}
        return (each for each in self._own.parent.glob("*") if each.name not in named)

    def _key_files(self) -> Iterator[Path]:
        return self._own.glob(_KEYS)

    def _notes(self, folder: Path) -> list[Path]:
        """Return the files of checkpoints in a log's folder.

        Raises: OSError: the folder is there and cannot be read, which `glob` would hide.
        """
        notes = folder / str(self._partition)
        try:
            return [each for each in notes.iterdir() if each.name.endswith(SUFFIX)]
        except FileNotFoundError:
            return []

    def put(self, sequence: int, head: str, branch: int, at: int) -> tuple[Checkpoint, bytes]:
        """Sign and store a checkpoint, and delete old ones; return it with its signed text.

        Raises: Unavailable: it cannot be stored.
        """
        checkpoint = Checkpoint(self.ledger, self._partition, branch, sequence, head, at)
        signed_text = sign_checkpoint(checkpoint, self.key)
        try:
            self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
            keys = self._own / _KEYS
            if self.key.verifier.text not in (keys.read_text("ascii") if keys.exists() else ""):
                with keys.open("a", encoding="ascii") as file:
                    file.write(f"{self.key.verifier.text}\n")
            self._write_metadata()
            folder = self._own / str(self._partition)
            self._read_names.add(write_checkpoint(folder, checkpoint, signed_text).name)
            # Keep files of other processes until they have been compared.
            compared = [each for each in self._notes(self._own) if each.name in self._read_names]
            for old in _deletable(compared):
                old.unlink(missing_ok=True)
                self._read_names.discard(old.name)
        except OSError as error:
            raise Unavailable(f"checkpoints cannot be stored: {error}") from error
        return checkpoint, signed_text

    def _write_metadata(self) -> None:
        """Write metadata next to the checkpoints."""


class FileCheckpoints(CheckpointStore):
    """Stores the checkpoints of a ledger in a file, in a separate directory for each path.

    Args:
        directory: the parent directory of all ledgers' checkpoints.
        file: the ledger's file, absolute.
        ledger: its id.
        is_same_ledger: tells whether another existing file has the same ledger.
        key: the key's file; None for one in the directory, created if missing.

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
        own = self._of_ledger / place_of(str(file))
        super().__init__(own, 0, ledger, signing_key_at(directory, key))
        self.options = f" {url_option(file)}"
        self._file = file
        self._is_same_ledger = is_same_ledger
        self._read_elsewhere = set[Path]()  # notes

    def _load(self) -> StoredCheckpoints:
        return StoredCheckpoints(self._checkpoints(self._own), self._elsewhere())

    def news_elsewhere(self, named: str | None) -> tuple[OtherPath, ...]:
        try:
            if self._read_elsewhere.issuperset(self._notes_elsewhere()):
                return ()
            self._known = self._known_keys(named)
            return self._elsewhere()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"checkpoints cannot be read: {error}") from error

    def has_copy(self) -> bool:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            with os.scandir(self._of_ledger) as found:  # quick: it is asked after each commit
                if all(each.name == self._own.name for each in found):
                    return False
            for folder in self._other_folders():
                stored = folder / FILE
                if stored.exists() and self._is_same_ledger(Path(stored.read_text("utf-8"))):
                    return True
        return False

    def _elsewhere(self) -> tuple[OtherPath, ...]:
        """Return what this ledger's file has left at other paths, as far as it can be read."""
        self.closed, found = [], list[OtherPath]()
        for folder in self._other_folders():
            try:
                notes = self._notes(folder)
                signed = self._read_signed(notes)
                stored = folder / FILE  # missing if a process was killed before its first one
                path = Path(stored.read_text("utf-8")) if stored.exists() else folder
            except (OSError, UnicodeDecodeError):  # such as another user's
                self.closed.append(folder)
                continue
            # One whose key was not known yet is read again.
            names = {name for name, _ in signed}
            self._read_elsewhere.update(note for note in notes if note.name in names)
            checkpoints = _sort(each for _, each in signed)
            found.append(OtherPath(path, self._is_same_ledger(path), checkpoints))
        return tuple(found)

    def _notes_elsewhere(self) -> Iterator[Path]:
        for folder in self._other_folders():
            with contextlib.suppress(OSError):
                yield from self._notes(folder)

    def _other_folders(self) -> list[Path]:
        if not self._of_ledger.is_dir():
            return []
        folders = {each for each in self._of_ledger.iterdir() if each.is_dir()}
        return sorted(folders - {self._own})

    def _replaced_folders(self) -> Iterator[Path]:
        return self._of_ledger.parent.glob(f"*/{self._own.name}")

    def _key_files(self) -> Iterator[Path]:
        return self._of_ledger.glob(f"*/{_KEYS}")

    def _write_metadata(self) -> None:
        named = self._own / FILE
        if not named.exists():
            # Another process may be first.
            with contextlib.suppress(FileExistsError), write_whole(named, mode=0o666) as file:
                file.write(str(self._file).encode())


def folder_of(directory: Path, ledger: str) -> Path:
    """Return the folder of a ledger's checkpoints."""
    return directory / ledger.replace(":", "-")


def has_key(directory: Path, file: Path | None) -> bool:
    """Tell whether the key that `signing_key_at` returns exists already."""
    return file is not None or (directory / _KEY).exists()


def signing_key_at(directory: Path, file: Path | None) -> SigningKey:
    """Return the key in a file; None for the directory's own, created if missing.

    Raises: Unavailable, Refused: it cannot be used.
    """
    return _key(directory) if file is None else SigningKey.load(file)


def _key(directory: Path) -> SigningKey:
    """Return the key in a directory, created if missing."""
    path = directory / _KEY
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            with contextlib.suppress(Refused):  # another process was first
                return SigningKey.create(path, "accountant", of_service=True)
    except OSError as error:
        why = write_words(error, path)
        raise Unavailable(f"checkpoints cannot be stored in {directory}: {why}") from error
    return SigningKey.load(path)


def _sort(found: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    """Return checkpoints by branch and number, without duplicates."""
    return tuple(sorted({*found}, key=lambda each: (each.branch, each.sequence, each.at)))


def _deletable(notes: Iterable[Path]) -> list[Path]:
    """Return old files to delete; keep the first of each branch, which shows where it began."""
    rest, branch = list[Path](), -1
    for note in sorted(notes, key=_order):
        if _order(note)[0] == branch:
            rest.append(note)
        branch = _order(note)[0]
    return rest[:-_KEEP]


def _order(note: Path) -> tuple[int, int]:
    branch, sequence, _ = note.name.split("-", 2)
    return int(branch), int(sequence)
