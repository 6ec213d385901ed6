from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apsw
import pytest

from streams.journal.file_moves import FileMoves
from tests.streams.mount_table import mounted


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory two below one that can be moved."""
    made = tmp_path.resolve() / "upper" / "lower"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def file(directory: Path) -> Path:
    """Return a file with another beside it."""
    (directory / "wal").touch()
    (directory / "other").touch()
    (directory / "file").touch()
    return directory / "file"


@pytest.fixture
def moves(file: Path) -> Iterator[FileMoves]:
    made = FileMoves([file, file.with_name("wal")])
    assert made.none()
    yield made
    made.close()


def removed(file: Path) -> None:
    file.unlink()


def replaced(file: Path) -> None:
    file.with_name("other").replace(file)


def renamed(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))


def without_wal(file: Path) -> None:
    file.with_name("wal").unlink()


def in_a_directory_that_moved(file: Path) -> None:
    file.parent.rename(file.parent.with_name("moved"))


def below_a_directory_that_moved(file: Path) -> None:
    upper = file.parent.parent
    upper.rename(upper.with_name("moved"))
    file.parent.mkdir(parents=True)
    file.touch()


@pytest.mark.parametrize(
    "move",
    [
        removed,
        replaced,
        renamed,
        without_wal,
        in_a_directory_that_moved,
        below_a_directory_that_moved,
    ],
)
def test_what_may_lead_elsewhere_is_noted_for_good(
    file: Path, moves: FileMoves, move: Callable[[Path], None]
) -> None:
    move(file)
    assert not moves.none()
    assert not moves.none()


def test_a_move_there_and_back_is_noted(file: Path, moves: FileMoves) -> None:
    renamed(file)
    file.with_name("elsewhere").rename(file)
    assert not moves.none()


@pytest.mark.parametrize("name", ["file", "wal"])
def test_an_open_file_that_lost_its_name_is_noted_once(
    file: Path, moves: FileMoves, name: str
) -> None:
    with file.with_name(name).open():
        file.with_name(name).unlink()
        assert not moves.none()


def test_a_change_that_may_be_a_removal_is_noted_once(file: Path, moves: FileMoves) -> None:
    for _ in range(3):
        os.link(file, file.with_name("again"))
        file.with_name("again").unlink()
        os.chown(file.with_name("wal"), -1, -1)
        assert not moves.none()
        assert moves.none()
    renamed(file)
    os.chown(file.with_name("wal"), -1, -1)
    for _ in range(3):
        assert not moves.none()


def test_more_changes_than_linux_keeps_are_noted(file: Path, moves: FileMoves) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    # Equal ones in a row count as one.
    for number in range(most + 10):
        os.chown(file if number % 2 else file.with_name("wal"), -1, -1)
    file.rename(file.with_name("elsewhere"))
    for _ in range(3):
        assert not moves.none()


def test_what_others_close_is_noted(moves: FileMoves) -> None:
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if "inotify" in str(entry.readlink()):
                os.close(int(entry.name))
    assert not moves.none()


def test_what_is_written_is_no_move(file: Path, moves: FileMoves) -> None:
    file.write_bytes(b"more")
    os.truncate(file, 0)
    file.read_bytes()
    file.with_name("new").touch()
    file.with_name("other").unlink()
    (file.parent / "inner").mkdir()
    (file.parent.parent / "beside").mkdir()
    assert moves.none()


def test_what_a_writer_of_sqlite_does_is_no_move(directory: Path) -> None:
    path = directory / "ledger.db"
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.execute("CREATE TABLE t (x)")
    moves = FileMoves([path, Path(db.filename_wal)])
    for number in range(50):
        db.execute("INSERT INTO t VALUES (?)", (number,))
        if number % 10 == 0:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert moves.none()
    db.close()  # which takes the WAL away
    assert not moves.none()
    moves.close()


def test_nothing_is_known_once_it_is_closed(moves: FileMoves) -> None:
    moves.close()
    assert not moves.none()
    moves.close()


def refused(path: Path, **mounts: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=path.name):
        FileMoves([path], **mounts)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_only_a_real_absolute_path_will_do(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    refused(Path("file"))
    link = file.with_name("link")
    link.symlink_to(file)
    refused(link)
    upper = file.parent.parent
    upper.with_name("symlink").symlink_to(upper)
    refused(upper.with_name("symlink") / "lower" / "file")


def test_what_is_not_there_cannot_be_watched(file: Path) -> None:
    refused(file.with_name("not there"))


UNSEEN: Final = ("btrfs", "zfs", "nfs4", "cifs", "fuse.sshfs", "9p", "virtiofs", "unknown")


@pytest.mark.parametrize("kind", UNSEEN)
def test_what_is_shared_or_has_subvolumes_can_move_unseen(
    tmp_path: Path, file: Path, kind: str
) -> None:
    for above in (file.parent, file.parent.parent):
        refused(file, mounts=mounted(tmp_path, ("/", "ext4"), (str(above), kind)))
    elsewhere = mounted(tmp_path, ("/", "ext4"), ("/mnt", kind), (f"{file.parent}2", kind))
    FileMoves([file], mounts=elsewhere).close()


def test_the_name_of_a_mount_may_hold_spaces(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a b" / "file"
    path.parent.mkdir()
    path.touch()
    table = mounted(tmp_path, ("/", "ext4"), (str(path.parent), "nfs4"))
    refused(path, mounts=table)


def test_without_a_table_of_mounts_nothing_is_known(tmp_path: Path, file: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        FileMoves([file], mounts=tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.touch()
    refused(file, mounts=empty)
