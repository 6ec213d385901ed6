"""One owner a ledger, whatever path leads to its file, and none of a file that went away."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apsw
import pytest

from streams.embedded.file_identity import check_mount
from streams.embedded.file_lock import FileInUse, FileLock
from streams.embedded.ledger_file import reader
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.settings import Settings
from tests.faults.sqlite_life import die, forked
from tests.streams.embedded.ledger_files import (
    OPEN,
    ask,
    beside,
    elsewhere,
    granted,
    killed_after,
    opened,
    serving,
)
from tests.streams.embedded.mount_table import IN_OWN_MOUNTS, can_mount, mount_points

pytestmark = pytest.mark.slow  # processes, and some are killed

LOOK: Final = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT count(*) FROM decisions").fetchone()[0])
db.close()
"""


def linked(file: Path) -> Path:
    (file.parent / "linked").mkdir()
    other = file.parent / "linked" / file.name
    os.link(file, other)
    return other


def symlinked(file: Path) -> Path:
    (file.parent / "symlinked").mkdir()
    other = file.parent / "symlinked" / file.name
    other.symlink_to(file)
    return other


def renamed(file: Path) -> Path:
    return file.rename(file.with_name("renamed.db"))


def unlocked(file: Path) -> Path:
    beside(file, ".lock").unlink()
    return file


@pytest.mark.parametrize("reached", [linked, symlinked, renamed, unlocked])
def test_a_file_in_use_is_locked_under_every_path(
    file: Path, reached: Callable[[Path], Path]
) -> None:
    with serving(file) as service:
        ask(service, 1)
        other = reached(file)
        said = elsewhere(OPEN, other)
        assert said.startswith("FileInUse")
        assert str(other) in said
        assert "End that process first" in said
        with pytest.raises(FileInUse):
            EmbeddedService.open(other, Settings())
        if reached is not renamed:
            ask(service, 2)
    if reached is symlinked:
        assert elsewhere(OPEN, other) == "opened 2\n"


def test_after_a_kill_neither_name_of_a_linked_file_is_opened(file: Path) -> None:
    killed_after(file, 1, 2)
    other = linked(file)
    for name in (other, file):
        with pytest.raises(Refused, match="2 names") as refused:
            EmbeddedService.open(name, Settings())
        assert f"-samefile {name}" in str(refused.value)
    other.unlink()
    with serving(file) as service:
        assert granted(service) == 2


def test_a_file_linked_after_a_clean_end_is_refused_too(file: Path) -> None:
    with serving(file) as service:
        ask(service, 1)
    with pytest.raises(Refused, match="hard links"):
        EmbeddedService.open(linked(file), Settings())


def test_a_creation_killed_between_its_two_names_heals(file: Path) -> None:
    def live() -> None:
        def at(event: str, arguments: tuple[object, ...]) -> None:
            if event == "os.remove" and str(arguments[0]).endswith(".new") and file.exists():
                die()

        sys.addaudithook(at)
        EmbeddedService.open(file, Settings())

    os.waitpid(forked(live), 0)
    assert file.stat().st_nlink == 2
    with serving(file) as service:
        ask(service, 1)
    assert {entry.name for entry in file.parent.iterdir()} == {file.name, f"{file.name}.lock"}


def test_foreign_and_used_lock_files_are_not_removed(file: Path) -> None:
    opened(file).close_sync()
    other, used = (file.with_name(f".{file.name}.{number}.new") for number in (1, 2))
    shutil.copy(file, other)
    os.link(file, used)
    beside(used, "-wal").write_bytes(b"decisions, perhaps")
    with pytest.raises(Refused, match="hard links"):
        EmbeddedService.open(file, Settings())
    assert other.exists()
    assert used.exists()
    assert beside(used, "-wal").exists()


def test_a_ledger_file_mounted_by_itself_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "with space\tand \\"
    directory.mkdir()
    file = directory / "ledger.db"
    file.touch()
    link = tmp_path / "link"
    link.symlink_to(file)
    root = ("/", "ext4")
    for path in (file, link):
        with pytest.raises(Refused, match="Mount its directory"):
            check_mount(path, mounts=mount_points(tmp_path, root, (str(file), "ext4")))
        check_mount(path, mounts=mount_points(tmp_path, root, (str(directory), "ext4")))
        check_mount(path, mounts=mount_points(tmp_path, root, (f"{file}2", "ext4")))


def test_without_a_table_of_mounts_the_devices_tell(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    (tmp_path / "ledger.db").touch()
    check_mount(tmp_path / "ledger.db", mounts=nowhere)
    check_mount(tmp_path / "not there yet", mounts=nowhere)
    with pytest.raises(Refused, match="Mount its directory"):
        check_mount(Path("/proc"), mounts=nowhere)


BIND: Final = ("sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"')


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount")
def test_a_file_mounted_without_its_directory_is_refused(file: Path) -> None:
    killed_after(file, 1)
    point = file.parent / "mounted" / file.name
    point.parent.mkdir()
    point.touch()
    said = elsewhere(OPEN, point, *IN_OWN_MOUNTS, *BIND, str(file), str(point))
    assert said.startswith("Refused")
    assert "Mount its directory" in said
    directories = str(file.parent), str(point.parent)
    said = elsewhere(OPEN, point, *IN_OWN_MOUNTS, *BIND, *directories)
    assert said == "opened 1\n"


def descriptors(file: Path) -> int:
    """Count this process' own descriptors of a file."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += os.path.samestat(os.fstat(int(entry.name)), file.stat())
    return count


def test_repeated_attempts_for_the_lock_do_not_disturb_its_owner(file: Path) -> None:
    other = symlinked(file)
    with serving(file) as service:
        ask(service, 1)
        for path in (other, file) * 10:
            with pytest.raises(FileInUse):
                EmbeddedService.open(path, Settings())
        assert descriptors(file) <= 4  # writer, its lock, and one of who asked
        # A process that finds no lock of SQLite's would be the last one: it removes the WAL.
        assert elsewhere(LOOK, file) == "3\n"
        assert beside(file, "-wal").exists()
        ask(service, 2)
        assert elsewhere(OPEN, other).startswith("FileInUse")
    assert descriptors(file) == 0
    assert elsewhere(OPEN, other) == "opened 2\n"


def test_a_directory_that_is_not_there_is_named_and_is_to_be_made(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    said = f"the directory {nowhere} does not exist; make it"
    for begin in (FileLock(nowhere / "ledger.db").take, lambda: opened(nowhere / "ledger.db")):
        with pytest.raises(Refused, match="cannot be opened") as refused:
            begin()
        assert said in str(refused.value)
        assert "Errno" not in str(refused.value)
    assert not nowhere.exists()
    nowhere.mkdir()
    opened(nowhere / "ledger.db").close_sync()


def test_a_lock_that_leads_nowhere_is_not_taken_for_a_missing_directory(file: Path) -> None:
    beside(file, ".lock").symlink_to(file.parent / "nowhere" / "lock")
    with pytest.raises(Refused, match="No such file"):
        opened(file)


def test_letting_go_of_the_lock_takes_nothing_from_a_reader(file: Path) -> None:
    with reader_left_by(file) as db:
        assert descriptors(file) > 1
        assert elsewhere(LOOK, file) == "3\n"
        assert beside(file, "-wal").exists()
        assert db.execute("SELECT count(*) FROM decisions").get == 3
        assert elsewhere(OPEN, file) == "opened 1\n"
        opened(file).close_sync()
        before = descriptors(file)
        for _ in range(5):
            opened(file).close_sync()
        assert descriptors(file) <= before
    opened(file).close_sync()
    assert descriptors(file) == 0


@contextlib.contextmanager
def reader_left_by(file: Path) -> Iterator[apsw.Connection]:
    """Yield a reader of a file whose owner in this process has ended."""
    service = opened(file)
    ask(service, 1)
    with reader(file) as db:
        assert db.execute("SELECT count(*) FROM decisions").get == 3
        service.close_sync()
        yield db


def test_a_forked_process_that_releases_the_lock_leaves_the_parents_lock(file: Path) -> None:
    opened(file).close_sync()
    other = symlinked(file)
    lock = FileLock(file)
    lock.take()
    lock.take_file()

    def live() -> None:
        lock.release()
        die()

    os.waitpid(forked(live), 0)
    assert elsewhere(OPEN, file).startswith("FileInUse")
    assert elsewhere(OPEN, other).startswith("FileInUse")
    lock.release()
    assert elsewhere(OPEN, other) == "opened 0\n"
