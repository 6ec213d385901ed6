from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from streams.journal.file_identity import identify
from streams.journal.watched_files import WatchedFiles
from tests.streams.mount_table import IN_OWN_MOUNTS, can_mount


class Seconds:
    """A clock that stands still until it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "file"
    made.touch()
    return made


@pytest.mark.parametrize("noted", [True, False])
def test_a_file_that_goes_away_is_missed_at_once(file: Path, noted: bool) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    path = file if noted else link  # of which nothing can be noted
    seconds = Seconds()
    watched = WatchedFiles({path: identify(path)}, monotonic=seconds)
    assert watched.in_place()
    assert watched.in_place()
    file.rename(file.with_name("away"))
    file.touch()
    for _ in range(3):
        assert not watched.in_place()
    file.with_name("away").replace(file)
    assert watched.in_place()
    file.unlink()
    assert not watched.in_place()
    watched.close()


def test_what_led_elsewhere_from_the_beginning_is_never_in_place(file: Path) -> None:
    watched = WatchedFiles({file: identify(file.parent)}, monotonic=Seconds())
    for _ in range(3):
        assert not watched.in_place()
        assert not watched.look()
    watched.close()


def test_what_moved_and_came_back_is_watched_where_it_is_now(tmp_path: Path) -> None:
    upper, seconds = tmp_path.resolve() / "upper", Seconds()
    file = upper / "lower" / "file"
    file.parent.mkdir(parents=True)
    file.touch()
    watched = WatchedFiles({file: identify(file)}, monotonic=seconds)
    for _ in range(3):
        assert watched.in_place()
        upper.rename(upper.with_name("away"))
        # The same file at the same path, below a directory that is another one.
        upper.mkdir()
        upper.with_name("away").joinpath("lower").rename(file.parent)
        upper.with_name("away").rmdir()
        assert watched.in_place()
        assert watched.in_place()
    upper.rename(upper.with_name("away"))
    assert not watched.in_place()
    watched.close()


def test_a_closed_one_looks(file: Path) -> None:
    watched = WatchedFiles({file: identify(file)}, monotonic=Seconds())
    assert watched.in_place()
    watched.close()
    assert watched.in_place()
    file.unlink()
    assert not watched.in_place()


MOUNT_OVER: Final = """
import subprocess, sys
from pathlib import Path
from streams.journal.file_identity import identify
from streams.journal.watched_files import WatchedFiles
file, now = Path(sys.argv[1]), 100.0
watched = WatchedFiles({file: identify(file)}, monotonic=lambda: now)
found = [watched.in_place()]
subprocess.run(["mount", "-t", "tmpfs", "none", str(file.parent)], check=True)
for now in (100.9, 101.0, 101.0):
    found.append(watched.in_place())
print(*found)
"""


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount")
def test_what_is_not_noted_is_looked_at_each_second(file: Path) -> None:
    command = [*IN_OWN_MOUNTS, sys.executable, "-c", MOUNT_OVER, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "True", "False", "False"]
