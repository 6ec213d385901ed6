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


class Counting(WatchedFiles):
    """Counts its looks."""

    looks = 0

    def look(self) -> bool:
        self.looks += 1
        return super().look()


def test_it_is_looked_at_each_second_and_where_something_was_noted(file: Path) -> None:
    seconds = Seconds()
    watched = Counting({file: identify(file)}, monotonic=seconds)
    looks = list[int]()

    def ask() -> None:
        assert watched.in_place()
        looks.append(watched.looks)

    ask()
    ask()
    seconds.now += 0.9
    ask()
    seconds.now += 0.1
    ask()
    ask()
    file.chmod(0o600)
    ask()
    ask()
    seconds.now -= 1000  # a machine that was put back to an earlier moment
    ask()
    ask()
    assert looks == [1, 1, 1, 2, 2, 3, 3, 4, 4]
    watched.close()


def test_what_moved_and_came_back_is_looked_at_each_time(tmp_path: Path) -> None:
    upper = tmp_path.resolve() / "upper"
    file = upper / "lower" / "file"
    file.parent.mkdir(parents=True)
    file.touch()
    watched = Counting({file: identify(file)}, monotonic=Seconds())
    assert watched.in_place()
    upper.rename(upper.with_name("away"))
    # The same file at the same path, below a directory that nobody watches.
    upper.mkdir()
    upper.with_name("away").joinpath("lower").rename(file.parent)
    for looks in (2, 3, 4):
        assert watched.in_place()
        assert watched.looks == looks
    upper.rename(upper.with_name("again"))
    assert not watched.in_place()
    watched.close()


def test_a_closed_one_looks(file: Path) -> None:
    watched = WatchedFiles({file: identify(file)}, monotonic=Seconds())
    assert watched.in_place()
    watched.close()
    assert watched.in_place()
    file.unlink()
    assert not watched.in_place()


MOUNTED: Final = """
import os, subprocess, sys
from pathlib import Path
from streams.journal.file_identity import identify
from streams.journal.watched_files import WatchedFiles
file, what = Path(sys.argv[1]), sys.argv[2:]
point = file.parent / "point"
point.mkdir()
def mount(*how):
    subprocess.run(["mount", *map(str, how)], check=True)
if what == ["unmounted"]:
    mount("-t", "tmpfs", "none", point)
    file = point / "file"
    file.touch()
other = file.with_name("other")
other.touch()
now = 100.0
watched = WatchedFiles({file: identify(file)}, monotonic=lambda: now)
found = [watched.in_place(), watched.in_place()]
if what == ["elsewhere"]:
    mount("-t", "tmpfs", "none", point)
elif what == ["above"]:
    mount("-t", "tmpfs", "none", file.parent)
elif what == ["on the file"]:
    mount("--bind", other, file)
else:
    subprocess.run(["umount", "-l", str(point)], check=True)
for _ in range(2):
    found.append(watched.in_place())
print(*found)
"""


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount")
@pytest.mark.parametrize("what", ["elsewhere", "above", "on the file", "unmounted"])
def test_mounts_are_noticed_at_once(file: Path, what: str) -> None:
    command = [*IN_OWN_MOUNTS, sys.executable, "-c", MOUNTED, str(file), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    still = str(what == "elsewhere")
    assert done.stdout.split() == ["True", "True", still, still]


THROUGH_A_SYMLINK: Final = """
import subprocess, sys
from pathlib import Path
from streams.journal.file_identity import identify
from streams.journal.watched_files import WatchedFiles
base = Path(sys.argv[1]).parent
file, real, over = base / "upper" / "lower" / "file", base / "real", base / "over"
for directory in (file.parent, real, over, base / "empty"):
    directory.mkdir(parents=True)
file.touch()
def bind(what, where):
    subprocess.run(["mount", "--bind", str(what), str(where)], check=True)
bind(file.parent, real)
(over / "lower").symlink_to(real)
watched = WatchedFiles({file: identify(file)}, monotonic=lambda: 100.0)
found = [watched.in_place()]
bind(over, base / "upper")
found.append(watched.in_place())
(over / "lower").unlink()
(over / "lower").symlink_to(base / "empty")
found.append(watched.in_place())
print(*found)
"""


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount")
def test_a_symlink_that_a_mount_has_put_on_the_way_is_not_trusted(file: Path) -> None:
    command = [*IN_OWN_MOUNTS, sys.executable, "-c", THROUGH_A_SYMLINK, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "True", "False"]
