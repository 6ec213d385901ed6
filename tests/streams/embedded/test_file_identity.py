from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.embedded.file_identity import WatchedPath, identify


@pytest.mark.parametrize("path", ["/", "/proc", "/dev/null", "/proc/self/status", "link"])
def test_a_path_is_the_same_while_it_leads_to_the_same_file(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    where = tmp_path / path  # an absolute path stays as it is
    found = os.stat(where)  # noqa: PTH116
    assert identify(where) == (found.st_dev, found.st_ino)
    assert WatchedPath(where, identify(where)).is_same()
    assert not WatchedPath(where, None).is_same()
    assert not WatchedPath(where, identify(tmp_path)).is_same()


def test_a_path_is_not_the_same_once_it_leads_elsewhere(tmp_path: Path) -> None:
    file, other, link = (tmp_path / name for name in ("file", "other", "link"))
    file.touch()
    other.touch()
    link.symlink_to(file)
    watched = [WatchedPath(path, identify(path)) for path in (file, link)]
    file.write_bytes(b"more")
    os.link(file, tmp_path / "again")
    assert all(path.is_same() for path in watched)
    other.replace(file)
    assert not any(path.is_same() for path in watched)
    (tmp_path / "again").replace(file)
    assert all(path.is_same() for path in watched)
    file.unlink()
    assert not any(path.is_same() for path in watched)


def test_a_path_of_nothing_is_the_same_until_something_is_there(tmp_path: Path) -> None:
    watched = WatchedPath(tmp_path / "file", identify(tmp_path / "file"))
    assert watched.is_same()
    (tmp_path / "file").touch()
    assert not watched.is_same()
